"""gush.copytree compared with shutil.copytree."""

import errno
import inspect
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gush


def described(root):
    """Every entry below a directory: name, kind and mode, times of modification, content or text of the link."""
    found = {}
    for at, directories, files in os.walk(root):
        for name in [".", *directories, *files]:
            path = Path(at, name)
            about = path.lstat()
            content = None
            if stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(about.st_mode):
                content = path.read_bytes()
            found[os.path.relpath(path, root)] = (about.st_mode, about.st_mtime_ns, content)
    return found


class CopyTree(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.dir = Path(held.name)
        self.source = self.dir / "source"
        for at in ("a/b", "empty", "ä"):
            (self.source / at).mkdir(parents=True)
        for number in range(40):
            path = self.source / "a" / f"file{number}"
            path.write_bytes(bytes([number]) * number * 1000)
            os.chmod(path, 0o600 + number % 8)
            os.utime(path, ns=(10**18, 10**18 + number))
        (self.source / "a/b/name with\nnewline").write_text("odd")
        (self.source / "link").symlink_to("a/file3")
        (self.source / "ä" / "up").symlink_to("../a")
        os.chmod(self.source / "empty", 0o2750)
        os.utime(self.source / "a", ns=(10**18, 10**18))
        self.target = self.dir / "target"

    def test_the_same_tree_as_from_shutil(self):
        for symlinks in (False, True):
            ours, theirs = self.dir / f"ours{symlinks}", self.dir / f"theirs{symlinks}"
            self.assertEqual(gush.copytree(self.source, ours, symlinks=symlinks), ours)
            shutil.copytree(self.source, theirs, symlinks=symlinks)
            self.assertEqual(described(ours), described(theirs))
            self.assertGreater(len(described(ours)), 45)

    def test_what_ignore_names_is_left_out_as_by_shutil(self):
        odd = {"*.pyc", "[a]", "{x,y}", "back\\slash", "#hash", "!bang", "a b"}
        odd |= {"space ", "tab\t", "line\n", "nbsp\u00a0"}
        odd |= {os.fsdecode(name) for name in (b"\xff", b"\xe4*", b"[\xe4]", b"\xe4\\", b"\xff ", b"!\xff")}
        for name in {"x", "file3", "empty", *odd}:
            (self.source / "a" / name).write_text("odd")
        (self.source / "a" / os.fsdecode(b"\xff\xff")).write_text("stays")
        (self.source / "a" / "space").write_text("stays")
        seen_names = []

        def ignore(directory, names):
            seen_names.append((directory, sorted(names)))
            return {"file3", "empty", *odd} & set(names)

        for symlinks in (False, True):
            ours, theirs = self.dir / f"ours{symlinks}", self.dir / f"theirs{symlinks}"
            gush.copytree(self.source, ours, symlinks=symlinks, ignore=ignore)
            by_us = sorted(seen_names)
            seen_names.clear()
            shutil.copytree(self.source, theirs, symlinks=symlinks, ignore=ignore)
            self.assertEqual(by_us, sorted(seen_names))
            seen_names.clear()
            self.assertEqual(described(ours), described(theirs))
            self.assertFalse((ours / "a" / "[a]").exists() or (ours / "empty").exists())
            self.assertTrue((ours / "a" / "x").exists() and (ours / "a" / "space").exists())
        seen_names = []
        by_bytes = os.fsencode(self.dir / "bytes")
        gush.copytree(os.fsencode(self.source), by_bytes, ignore=lambda at, names: seen_names.append(at) or [b"\xff", b"a b"])
        self.assertIn(os.fsencode(self.source / "a"), seen_names)
        self.assertEqual(os.path.lexists(by_bytes + b"/a/\xff") or os.path.lexists(by_bytes + b"/a/a b"), False)
        self.assertTrue(os.path.lexists(by_bytes + b"/a/\xff\xff"))
        by_pattern = self.dir / "pattern"
        gush.copytree(self.source, by_pattern, ignore=shutil.ignore_patterns("file*"))
        self.assertEqual([name for name in os.listdir(by_pattern / "a") if name.startswith("file")], [])

    def test_threads_verify_and_progress(self):
        seen = []
        gush.copytree(self.source, self.target, threads=3, verify=True, on_progress=lambda *counts: seen.append(counts))
        entries, count = seen[-1]
        self.assertEqual(count, sum(number * 1000 for number in range(40)) * 2 + 2 * 3 + 3000)
        self.assertGreaterEqual(entries, 80)
        gush.copytree(str(self.source), os.fsencode(self.dir / "bytes"))

    def test_only_what_is_asked_for_is_kept(self):
        gush.copytree(self.source, self.target, preserve=())
        self.assertNotEqual((self.target / "a/file1").stat().st_mtime_ns, 10**18 + 1)
        one = self.source / "a/hard"
        os.link(self.source / "a/file1", one)
        gush.copytree(self.source, self.dir / "links", symlinks=True, preserve=["links"])
        self.assertTrue(os.path.samefile(self.dir / "links/a/file1", self.dir / "links/a/hard"))
        with self.assertRaisesRegex(ValueError, 'preserve: "colour"'):
            gush.copytree(self.source, self.dir / "no", preserve=["colour"])
        with self.assertRaisesRegex(TypeError, r"\('mode',\)"):
            gush.copytree(self.source, self.dir / "no", preserve="mode")
        self.assertFalse((self.dir / "no").exists())

    def test_a_target_that_exists(self):
        self.target.mkdir()
        (self.target / "own").write_text("stays")
        for copytree in (gush.copytree, shutil.copytree):
            with self.assertRaises(FileExistsError) as caught:
                copytree(self.source, self.target)
            self.assertEqual(os.fspath(caught.exception.filename), os.fspath(self.target))
        gush.copytree(self.source, self.target, dirs_exist_ok=True)
        self.assertEqual((self.target / "own").read_text(), "stays")
        self.assertEqual((self.target / "a/file3").read_bytes(), bytes([3]) * 3000)

    def test_a_source_that_is_no_directory(self):
        for copytree in (gush.copytree, shutil.copytree):
            with self.assertRaises(NotADirectoryError):
                copytree(self.source / "a/file1", self.target)
            with self.assertRaises(FileNotFoundError) as caught:
                copytree(self.dir / "missing", self.target)
            self.assertEqual(os.fspath(caught.exception.filename), os.fspath(self.dir / "missing"))
            self.assertFalse(self.target.exists())

    def test_parents_are_made(self):
        gush.copytree(self.source, self.dir / "x/y/z")
        self.assertTrue((self.dir / "x/y/z/a/file7").exists())

    def test_entries_that_fail_are_told_and_the_others_copied(self):
        (self.source / "dangling").symlink_to("nowhere")
        for copytree, target in ((gush.copytree, self.target), (shutil.copytree, self.dir / "theirs")):
            with self.assertRaises(shutil.Error) as caught:
                copytree(self.source, target)
            [(source, _, reason)] = caught.exception.args[0]
            self.assertEqual(source, os.fspath(self.source / "dangling"))
            self.assertIn("No such file or directory", reason)
            self.assertEqual(len(os.listdir(target / "a")), 41)
            if copytree is gush.copytree:
                self.assertIsInstance(caught.exception, gush.TreeError)
                self.assertEqual(caught.exception.errno, errno.ENOENT)
                self.assertEqual(caught.exception.filename, source)
                self.assertIn("dangling", str(caught.exception))

    def test_dangling_links_are_left_out_if_asked(self):
        gush.copytree(self.source, self.dir / "before")
        dangling = {"dangling": "nowhere", "a/lost": "/nowhere/at/all", "loop": "loop", "through": "a/file1/x"}
        for name, text in dangling.items():
            (self.source / name).symlink_to(text)
        # shutil looks for a relative link from the working directory, so it loses links that lead somewhere elsewhere.
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.source)
        for copytree, target in ((gush.copytree, self.target), (shutil.copytree, self.dir / "theirs")):
            copytree(self.source, target, ignore_dangling_symlinks=True)
            for name in dangling:
                self.assertFalse(os.path.lexists(target / name), name)
        # Without the times: those of directories changed by the links.
        kept, before = (
            {path: (mode, content) for path, (mode, _, content) in described(root).items()}
            for root in (self.target, self.dir / "before")
        )
        self.assertEqual(kept, before)
        gush.copytree(self.source, self.dir / "links", symlinks=True, ignore_dangling_symlinks=True)
        self.assertEqual({name: os.readlink(self.dir / "links" / name) for name in dangling}, dangling)

    def test_special_files_are_refused_and_the_rest_is_copied(self):
        named_pipe = self.source / "ä" / "fifo"
        os.mkfifo(named_pipe)
        listening = socket.socket(socket.AF_UNIX)
        self.addCleanup(listening.close)
        listening.bind(os.fspath(self.source / "socket"))
        before = described(self.source)
        with self.assertRaises(shutil.Error) as caught:
            gush.copytree(self.source, self.target)
        self.assertEqual(
            sorted(text for *_, text in caught.exception.args[0]),
            [f"`{self.source / 'socket'}` is a socket", f"`{named_pipe}` is a named pipe"],
        )
        special = (os.path.join("ä", "fifo"), "socket")
        for name in special:
            self.assertFalse(os.path.lexists(self.target / name), name)
        # What would be replaced stays.
        (self.target / "socket").write_text("kept")
        with self.assertRaises(shutil.Error):
            gush.copytree(self.source, self.target, dirs_exist_ok=True)
        self.assertEqual((self.target / "socket").read_text(), "kept")
        self.assertGreater(len(before), len(special))

    def test_only_dangling_links_are_ignored(self):
        (self.source / "dangling").symlink_to("nowhere")
        (self.source / "again").symlink_to(".")
        with self.assertRaises(shutil.Error) as caught:
            gush.copytree(self.source, self.target, ignore_dangling_symlinks=True)
        [(source, *_)] = caught.exception.args[0]
        self.assertEqual(source, os.fspath(self.source / "again"))

    def test_a_directory_below_itself(self):
        before = described(self.source)
        link = self.dir / "link"
        link.symlink_to("source")
        for at, made in (("new/below", "new"), ("a/again", "a/again"), ("top", "top")):
            for source in (self.source, link):
                target = link / at
                gush.copytree(source, target, symlinks=True)
                found = {path: (mode, content) for path, (mode, _, content) in described(target).items()}
                self.assertEqual(found, {path: (mode, content) for path, (mode, _, content) in before.items()})
                shutil.rmtree(self.source / made)

    def test_what_is_there_already_is_not_copied_into_itself(self):
        with self.assertRaisesRegex(shutil.Error, "into itself"):
            gush.copytree(self.source, self.source / "a", dirs_exist_ok=True)

    def test_the_arguments_in_their_places_are_those_of_shutil(self):
        ignore = shutil.ignore_patterns("file*")
        names = list(inspect.signature(shutil.copytree).parameters)
        self.assertEqual(list(inspect.signature(gush.copytree).parameters)[: len(names)], names)
        for symlinks in (False, True):
            ours, theirs = self.dir / f"ours{symlinks}", self.dir / f"theirs{symlinks}"
            gush.copytree(self.source, ours, symlinks, ignore, gush.copy2, False, True)
            shutil.copytree(self.source, theirs, symlinks, ignore, shutil.copy2, False, True)
            self.assertEqual(described(ours), described(theirs))

    def test_each_file_goes_by_the_function_that_is_given(self):
        for copytree, target in ((gush.copytree, self.target), (shutil.copytree, self.dir / "theirs")):
            seen_names = []

            def by_hand(source, target):
                seen_names.append((os.path.relpath(source, self.source), os.path.basename(target)))
                return shutil.copy2(source, target)

            copytree(self.source, target, True, None, by_hand)
            self.assertEqual(len(seen_names), 41)
        self.assertEqual(described(self.target), described(self.dir / "theirs"))
        os.chmod(self.source / "a/file1", 0o600)
        gush.copytree(self.source, self.dir / "plain", copy_function=gush.copyfile)
        self.assertNotEqual((self.dir / "plain/a/file1").stat().st_mode & 0o777, 0o600)
        for given in ({"threads": 2}, {"verify": True}, {"preserve": ()}, {"on_progress": print}):
            with self.assertRaisesRegex(TypeError, f"{next(iter(given))} .*copy_function"):
                gush.copytree(self.source, self.dir / "no", copy_function=shutil.copyfile, **given)
        self.assertFalse((self.dir / "no").exists())

    def test_an_exception_of_the_observer_ends_the_copy(self):
        def refuse(entries, count):
            raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            gush.copytree(self.source, self.target, on_progress=refuse)

    def test_ctrl_c_ends_the_copy(self):
        program = (
            "import gush, os, signal\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "def report(entries, count):\n"
            "    os.kill(os.getpid(), signal.SIGINT)\n"
            "try:\n"
            f"    gush.copytree({os.fspath(self.source)!r}, {os.fspath(self.target)!r}, on_progress=report)\n"
            "    signal.pause()\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted')\n"
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((ended.stdout, ended.returncode), ("interrupted\n", 0), ended.stderr)


if __name__ == "__main__":
    unittest.main()
