"""What the wheel says of itself."""

import importlib.metadata
import unittest

import gush


class Metadata(unittest.TestCase):
    def test_version_licence_and_classifiers(self):
        about = importlib.metadata.metadata("gush")
        self.assertEqual(about["Version"], gush.__version__)
        self.assertEqual(about["License-Expression"], "MIT OR Apache-2.0")
        files = importlib.metadata.files("gush")
        for name in ("LICENSE-MIT", "LICENSE-APACHE"):
            self.assertIn(name, about.get_all("License-File"))
            [text] = [file for file in files if file.name == name]
            self.assertIn("Licen", text.read_text())
        classifiers = about.get_all("Classifier")
        self.assertIn("Programming Language :: Python :: 3 :: Only", classifiers)
        # As of PEP 639: the expression takes their place.
        self.assertEqual([text for text in classifiers if text.startswith("License ::")], [])


if __name__ == "__main__":
    unittest.main()
