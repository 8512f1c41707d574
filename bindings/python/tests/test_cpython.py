"""CPython's own tests of shutil, of the Python that runs them, with functions of gush in the place of shutil's."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest

# Functions of shutil, and those of gush that replace them.
REPLACED = {
    "copyfileobj": "copyfileobj",
    "copyfile": "copyfile",
    "copy": "copypath",
    "copy2": "copy2",
    "copytree": "copytree",
}

# What fails then, and why.
OPENS = "replaces shutil.open()"
SENDS = "replaces os.sendfile(), and expects its exception"
EXPECTED = {
    "copyfile": {
        "TestCopyFile.test_w_dest_open_fails": OPENS,
        "TestCopyFile.test_w_dest_close_fails": OPENS,
        "TestCopyFile.test_w_source_close_fails": OPENS,
        "TestZeroCopySendfile.test_blocksize_arg": SENDS,
        "TestZeroCopySendfile.test_unhandled_exception": SENDS,
    },
    "copytree": {
        "TestCopyTree.test_copytree_winerror": "replaces os.chmod()",
    },
}

PROGRAM = """
import json, shutil, sys, unittest
import gush
for name, ours in json.loads(sys.argv[1]).items():
    setattr(shutil, name, getattr(gush, ours))
import test.test_shutil
tests = unittest.defaultTestLoader.loadTestsFromModule(test.test_shutil)
result = unittest.TextTestRunner().run(tests)
failed = [test.id() for test, _ in result.failures + result.errors]
print(json.dumps([result.testsRun, failed]))
"""


# Debian has the tests in a package of their own, libpython3-testsuite.
@unittest.skipUnless(importlib.util.find_spec("test.test_shutil"), "this Python has no test.test_shutil")
class TestsOfShutil(unittest.TestCase):
    def check(self, names):
        replaced = json.dumps({name: REPLACED[name] for name in names})
        command = [sys.executable, "-c", PROGRAM, replaced]
        with tempfile.TemporaryDirectory() as at:
            ran = subprocess.run(command, cwd=at, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        count, failed = json.loads(ran.stdout)
        self.assertGreater(count, 100)
        expected = [f"test.test_shutil.{test}" for name in names for test in EXPECTED.get(name, {})]
        self.assertEqual(sorted(failed), sorted(expected), ran.stderr)

    def test_each_function_alone(self):
        for name in REPLACED:
            with self.subTest(name):
                self.check([name])

    def test_all_functions_together(self):
        self.check(REPLACED)


if __name__ == "__main__":
    unittest.main()
