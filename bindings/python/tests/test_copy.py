"""gush.copy: files, pipes and sockets as Python has them."""

import concurrent.futures
import copy
import errno
import gzip
import io
import multiprocessing
import os
import pickle
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

import gush

BYTES = bytes(range(256)) * 3000


class InADirectory(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.dir = Path(held.name)
        self.source = self.dir / "source"
        self.target = self.dir / "target"
        self.source.write_bytes(BYTES)


class Copy(InADirectory):
    def test_a_file_is_copied_and_the_report_says_how(self):
        with open(self.source, "rb") as source, open(self.target, "wb") as target:
            report = gush.copy(source, target)
        self.assertEqual(self.target.read_bytes(), BYTES)
        self.assertEqual(report.bytes, len(BYTES))
        self.assertIn(report.method, gush.doctor()["methods"])
        self.assertIn("picked", report.explanation)

    def test_numbers_are_descriptors(self):
        source = os.open(self.source, os.O_RDONLY)
        target = os.open(self.target, os.O_WRONLY | os.O_CREAT)
        self.assertEqual(gush.copy(source, target, length=10).bytes, 10)
        os.close(source)
        os.close(target)
        self.assertEqual(self.target.read_bytes(), BYTES[:10])

    def test_what_a_buffered_source_has_read_ahead_is_neither_lost_nor_doubled(self):
        for length in (None, 0, 5, 100_000):
            with open(self.source, "rb") as source, open(self.target, "wb") as target:
                head = source.read(7)
                count = gush.copy(source, target, length=length).bytes
                self.assertEqual(source.tell(), 7 + count)
                self.assertEqual(source.read(), BYTES[7 + count :])
                self.assertEqual(head + self.target.read_bytes(), BYTES[: 7 + count])

    def test_a_file_of_procfs_goes_on_where_it_is(self):
        whole = Path("/proc/version").read_bytes()
        with open("/proc/version", "rb") as source, open(self.target, "wb") as target:
            head = source.read(2)
            gush.copy(source, target, length=3)
            self.assertEqual(source.read(), whole[5:])
        self.assertEqual(head + self.target.read_bytes(), whole[:5])

    def test_what_a_buffered_target_holds_back_goes_first(self):
        with open(self.source, "rb") as source, open(self.target, "wb") as target:
            target.write(b"before ")
            gush.copy(source, target, length=4)
            self.assertEqual(target.tell(), 11)
            target.write(b" after")
        self.assertEqual(self.target.read_bytes(), b"before " + BYTES[:4] + b" after")

    def test_a_file_for_reading_and_writing_goes_on_where_it_is(self):
        self.target.write_bytes(b"0123456789")
        with open(self.source, "rb") as source, open(self.target, "r+b") as target:
            self.assertEqual(target.read(3), b"012")
            gush.copy(source, target, length=2)
            self.assertEqual(target.read(), b"56789")
        self.assertEqual(self.target.read_bytes(), b"012" + BYTES[:2] + b"56789")

    def test_appending_adds(self):
        self.target.write_bytes(b"old ")
        with open(self.source, "rb") as source, open(self.target, "ab") as target:
            gush.copy(source, target)
        self.assertEqual(self.target.read_bytes(), b"old " + BYTES)

    def test_a_pipe_whose_reader_has_bytes_already(self):
        for length in (None, 3, 20_000):
            reading, writing = os.pipe()

            def fill():
                try:
                    with open(writing, "wb") as out:
                        out.write(BYTES)
                except BrokenPipeError:
                    pass

            thread = threading.Thread(target=fill)
            thread.start()
            seen = []
            with open(reading, "rb") as source, open(self.target, "wb") as target:
                head = source.read(7)
                report = gush.copy(source, target, length=length, on_progress=lambda *counts: seen.append(counts))
            thread.join()
            expected = BYTES[7:] if length is None else BYTES[7 : 7 + length]
            self.assertEqual(head, BYTES[:7])
            self.assertEqual(self.target.read_bytes(), expected)
            self.assertEqual((report.bytes, seen[-1][0]), (len(expected), len(expected)))

    def test_sockets_and_their_files(self):
        for as_file in (False, True):
            left, right = socket.socketpair()
            with left, right, open(self.source, "rb") as source, open(self.target, "wb") as target:

                def send():
                    gush.copy(source, left)
                    left.shutdown(socket.SHUT_WR)

                thread = threading.Thread(target=send)
                thread.start()
                end = right.makefile("rb") if as_file else right
                gush.copy(end, target)
                thread.join()
                end.close()
            self.assertEqual(self.target.read_bytes(), BYTES)

    def test_a_socket_with_a_timeout_is_waited_for(self):
        left, right = socket.socketpair()
        left.settimeout(5)
        right.settimeout(5)
        with left, right, open(self.target, "wb") as target:
            thread = threading.Thread(target=lambda: (right.sendall(BYTES), right.close()))
            thread.start()
            self.assertEqual(gush.copy(left, target).bytes, len(BYTES))
            thread.join()

    def test_temporary_files_and_objects_with_fileno(self):
        class Thing:
            def __init__(self, file):
                self.fileno = file.fileno

        with tempfile.NamedTemporaryFile() as source, tempfile.TemporaryFile() as target:
            source.write(b"tempo")
            source.flush()
            source.seek(0)
            gush.copy(source, Thing(target))
            self.assertEqual(os.pread(target.fileno(), 9, 0), b"tempo")

    def test_progress_ends_with_all(self):
        seen = []
        with open(self.source, "rb") as source, open(self.target, "wb") as target:
            gush.copy(source, target, on_progress=lambda *counts: seen.append(counts))
        self.assertEqual(seen[-1], (len(BYTES), len(BYTES)))

    def test_an_exception_of_the_observer_ends_the_copy_and_comes_out(self):
        def refuse(done, expected):
            raise LookupError("enough")

        with open("/dev/zero", "rb") as source, open("/dev/null", "wb") as target:
            with self.assertRaisesRegex(LookupError, "enough"):
                gush.copy(source, target, on_progress=refuse)

    def test_the_named_method_is_used_or_refused(self):
        with open(self.source, "rb") as source, open(self.target, "wb") as target:
            self.assertEqual(gush.copy(source, target, method="read-write").method, "read-write")
            with self.assertRaises(gush.Refused):
                gush.copy(open("/dev/zero", "rb", buffering=0), target, method="reflink", length=1)
            with self.assertRaisesRegex(ValueError, "teleport"):
                gush.copy(source, target, method="teleport")


class WrongArguments(InADirectory):
    def assert_refused(self, kind, text, source, target):
        with self.assertRaisesRegex(kind, text):
            gush.copy(source, target)

    def test_text_files(self):
        with open(self.source, "rb") as source, open(self.target, "w") as target:
            self.assert_refused(TypeError, "target is open in text mode.*'b'", source, target)
            self.assert_refused(TypeError, "source is open in text mode", target, source)
        with tempfile.NamedTemporaryFile("w") as text:
            self.assert_refused(TypeError, "text mode", text, 1)

    def test_files_in_memory(self):
        with open(self.source, "rb") as source:
            self.assert_refused(io.UnsupportedOperation, "target, BytesIO, has no file descr", source, io.BytesIO())
            self.assert_refused(io.UnsupportedOperation, "source, BytesIO", io.BytesIO(), source)

    def test_files_whose_bytes_are_not_those_of_the_descriptor(self):
        with gzip.open(self.target, "wb") as packed, open(self.source, "rb") as source:
            self.assert_refused(TypeError, "GzipFile, translates", source, packed)
        with gzip.open(self.target, "rb") as packed:
            self.assert_refused(TypeError, "GzipFile, translates", packed, 1)
            self.assert_refused(TypeError, "translates", io.BufferedReader(packed), 1)

    def test_members_of_archives(self):
        with tarfile.open(self.target, "w") as tar:
            tar.add(self.source)
        with tarfile.open(self.target) as tar:
            member = tar.extractfile(tar.getmembers()[0])
            self.assert_refused(io.UnsupportedOperation, "ExFileObject, has no.*gush.copyfileobj", member, 1)

    def test_closed_files(self):
        closed = open(self.source, "rb")
        closed.close()
        self.assert_refused(ValueError, "closed file", closed, 1)
        left, right = socket.socketpair()
        left.close()
        self.assert_refused(ValueError, "source is closed", left, 1)
        right.close()

    def test_other_things(self):
        self.assert_refused(TypeError, "takes open files, gush.copypath", self.source, 1)
        self.assert_refused(TypeError, "takes open files, gush.copypath", str(self.source), 1)
        self.assert_refused(TypeError, "NoneType, has no fileno", None, 1)
        self.assert_refused(TypeError, "bool", True, 1)
        self.assert_refused(ValueError, "-1", -1, 1)
        with open(self.source, "rb") as source:
            with self.assertRaises(ValueError):
                gush.copy(source, 1, length=-1)
            with self.assertRaises(ValueError):
                gush.copy(source, 1, limit=0)

    def test_a_descriptor_that_is_not_open(self):
        with open(self.source, "rb") as source, self.assertRaises(gush.Error) as caught:
            gush.copy(source, 1_000_000)
        self.assertEqual((caught.exception.errno, caught.exception.side), (errno.EBADF, "target"))

    def test_files_opened_the_other_way(self):
        with open(self.source, "rb") as source, open(self.target, "wb") as target:
            for side, ends in (("source", (target, target)), ("target", (source, source))):
                with self.assertRaises(gush.Error) as caught:
                    gush.copy(*ends)
                self.assertEqual(caught.exception.errno, errno.EBADF, side)


class Errors(InADirectory):
    def test_a_full_disk(self):
        with open(self.source, "rb") as source, open("/dev/full", "wb", buffering=0) as target:
            with self.assertRaises(OSError) as caught:
                gush.copy(source, target)
        error = caught.exception
        self.assertIsInstance(error, gush.Error)
        self.assertEqual((error.errno, error.filename, error.side), (errno.ENOSPC, "/dev/full", "target"))
        self.assertEqual(error.delivered_bytes, 0)
        self.assertIn("No space left on device", str(error))

    def test_a_reader_that_is_gone_is_a_broken_pipe(self):
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "wb") as pipe, open(self.source, "rb") as source:
            with self.assertRaises(BrokenPipeError) as caught:
                gush.copy(source, pipe)
        self.assertIsInstance(caught.exception, gush.Error)

    def test_bytes_taken_from_a_pipe_and_lost_are_counted(self):
        reading, writing = os.pipe()
        os.write(writing, b"taken")
        os.close(writing)
        with open("/dev/full", "wb", buffering=0) as full, self.assertRaises(gush.Error) as caught:
            gush.copy(reading, full)
        os.close(reading)
        self.assertEqual((caught.exception.delivered_bytes, caught.exception.in_flight_bytes), (0, 5))

    def test_a_file_without_a_name_is_not_called_none(self):
        reading, writing = os.pipe()
        os.close(reading)
        with open(self.source, "rb") as source, self.assertRaises(gush.Error) as caught:
            gush.copy(source, writing)
        self.assertIsNone(caught.exception.filename)
        self.assertRegex(str(caught.exception), "failed on the target: Broken pipe$")
        reading, full = os.pipe()
        os.write(full, BYTES[:10])
        os.close(full)
        with open(reading, "rb") as ahead, self.assertRaises(gush.Error) as caught:
            gush.copy(ahead, writing)
        self.assertRegex(str(caught.exception), "write failed on the target: Broken pipe$")
        os.close(writing)

    def test_they_can_be_pickled_and_copied(self):
        reading, writing = os.pipe()
        os.close(reading)
        (self.dir / "tree").mkdir()
        (self.dir / "tree" / "dangling").symlink_to("nowhere")
        source, null = open(self.source, "rb"), open("/dev/null", "wb")
        self.addCleanup(source.close)
        self.addCleanup(null.close)
        calls = (
            lambda: gush.copy(source, writing),
            lambda: gush.copyfile(self.source, "/dev/full"),
            lambda: gush.copy(source, null, method="reflink", length=1),
            lambda: gush.copytree(self.dir / "tree", self.target),
        )
        kinds = (BrokenPipeError, gush.Error, gush.Refused, gush.TreeError)
        again = "import pickle, sys; sys.stdout.buffer.write(pickle.dumps(pickle.load(sys.stdin.buffer)))"
        for call, kind in zip(calls, kinds):
            with self.assertRaises(kind) as caught:
                call()
            raised = caught.exception
            # Another process has to make a class that nothing has raised there.
            command = [sys.executable, "-c", again]
            child = subprocess.run(command, input=pickle.dumps(raised), capture_output=True)
            self.assertEqual(child.returncode, 0, child.stderr.decode())
            for twin in (pickle.loads(child.stdout), copy.copy(raised)):
                self.assertIs(type(twin), type(raised))
                self.assertEqual((twin.args, vars(twin), str(twin)), (raised.args, vars(raised), str(raised)))
                self.assertEqual((twin.errno, twin.filename), (raised.errno, raised.filename))
        os.close(writing)

    def test_a_process_pool_raises_them(self):
        reading, writing = os.pipe()
        os.close(reading)
        forked = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(1, forked) as pool, open(self.source, "rb") as source:
            with self.assertRaises(BrokenPipeError) as caught:
                pool.submit(gush.copy, source.fileno(), writing).result()
        self.assertEqual((caught.exception.side, caught.exception.delivered_bytes), ("target", 0))
        os.close(writing)


class CopyFileObj(InADirectory):
    def test_files_and_objects_without_a_descriptor(self):
        packed = self.dir / "packed"
        with gzip.open(packed, "wb") as target, open(self.source, "rb") as source:
            self.assertIsNone(gush.copyfileobj(source, target))
        with tarfile.open(self.dir / "tar", "w") as tar:
            tar.add(self.source, "name")
        with tarfile.open(self.dir / "tar") as tar, gzip.open(packed) as unpacked, open(self.source, "rb") as plain:
            for source in (plain, unpacked, tar.extractfile("name"), io.BytesIO(BYTES)):
                for length in ((), (0,), (1000,)):
                    source.seek(3)
                    memory = io.BytesIO()
                    gush.copyfileobj(source, memory, *length)
                    self.assertEqual(memory.getvalue(), BYTES[3:])
                source.seek(3)
                with open(self.target, "wb") as target:
                    gush.copyfileobj(source, target)
                    self.assertEqual(target.tell(), len(BYTES) - 3)
                self.assertEqual(self.target.read_bytes(), BYTES[3:])
        with open(self.target, "w+", encoding="latin-1") as target:
            gush.copyfileobj(io.StringIO("text"), target)
        self.assertEqual(self.target.read_text(), "text")

    def test_what_stands_before_a_file_sees_all_bytes(self):
        class Upper(io.BufferedReader):
            def read(self, size=-1):
                return super().read(size).upper()

        class Counting:
            """As the wrapper of a progress bar: everything that it lacks is the file's."""

            def __init__(self, file):
                self.file, self.count = file, 0

            def __getattr__(self, name):
                return getattr(self.file, name)

            def write(self, data):
                self.count += len(data)
                return self.file.write(data)

        self.source.write_bytes(b"bytes" * 9)
        with Upper(io.FileIO(self.source)) as source, open(self.target, "wb") as target:
            counting = Counting(target)
            gush.copyfileobj(source, counting)
        self.assertEqual((self.target.read_bytes(), counting.count), (b"BYTES" * 9, 45))

    def test_the_errors_of_shutil(self):
        closed = open(self.source, "rb")
        closed.close()
        with open(self.target, "wb") as target, open(self.source, "rb") as source:
            for source_given, target_given, kind in (
                (target, target, io.UnsupportedOperation),
                (source, source, io.UnsupportedOperation),
                (closed, target, ValueError),
                (source, io.StringIO(), TypeError),
                (self.source, target, AttributeError),
            ):
                for copyfileobj in (gush.copyfileobj, shutil.copyfileobj):
                    with self.assertRaises(kind):
                        copyfileobj(source_given, target_given)


class CopyFile(InADirectory):
    def test_the_same_results_as_shutil(self):
        os.chmod(self.source, 0o640)
        os.utime(self.source, ns=(1_000_000_000, 2_000_000_001))
        for ours, theirs in ((gush.copyfile, shutil.copyfile), (gush.copy2, shutil.copy2)):
            one, two = self.dir / "one", self.dir / "two"
            self.assertEqual(ours(self.source, one), one)
            theirs(self.source, two)
            self.assertEqual(one.read_bytes(), two.read_bytes())
            self.assertEqual(one.stat().st_mode, two.stat().st_mode)
            if ours is gush.copy2:
                self.assertEqual(one.stat().st_mtime_ns, 2_000_000_001)
            one.unlink()
            two.unlink()

    def test_copy2_into_a_directory(self):
        inside = self.dir / "inside"
        inside.mkdir()
        self.assertEqual(gush.copy2(self.source, inside), os.fspath(inside / "source"))
        self.assertEqual((inside / "source").read_bytes(), BYTES)

    def test_copy2_as_the_function_of_shutil_copytree(self):
        tree = self.dir / "tree"
        (tree / "below").mkdir(parents=True)
        (tree / "below" / "file").write_bytes(BYTES)
        (tree / "link").symlink_to("below/file")
        shutil.copytree(tree, self.target, symlinks=True, copy_function=gush.copy2)
        self.assertEqual((self.target / "below" / "file").read_bytes(), BYTES)
        self.assertEqual(os.readlink(self.target / "link"), "below/file")

    def test_copypath_is_the_copy_of_shutil(self):
        os.chmod(self.source, 0o640)
        link = self.dir / "link"
        link.symlink_to("source")
        for copypath in (gush.copypath, shutil.copy):
            self.target.mkdir()
            self.assertEqual(copypath(self.source, self.target), os.fspath(self.target / "source"))
            self.assertEqual(stat.S_IMODE((self.target / "source").stat().st_mode), 0o640)
            self.assertNotEqual((self.target / "source").stat().st_mtime_ns, self.source.stat().st_mtime_ns)
            copypath(os.fsencode(link), os.fsencode(self.target / "again"), follow_symlinks=False)
            self.assertEqual(os.readlink(self.target / "again"), "source")
            with self.assertRaises(shutil.SameFileError):
                copypath(self.source, link)
            shutil.rmtree(self.target)

    def test_the_errors_of_shutil(self):
        fifo, link = self.dir / "fifo", self.dir / "link"
        os.mkfifo(fifo)
        link.symlink_to(self.source)
        for copyfile in (gush.copyfile, shutil.copyfile):
            with self.assertRaises(shutil.SameFileError):
                copyfile(self.source, link)
            with self.assertRaises(shutil.SpecialFileError):
                copyfile(fifo, self.target)
            with self.assertRaises(FileNotFoundError) as caught:
                copyfile(self.dir / "missing", self.target)
            self.assertEqual(os.fspath(caught.exception.filename), os.fspath(self.dir / "missing"))
            with self.assertRaises(IsADirectoryError):
                copyfile(self.source, self.dir)
        self.assertEqual(self.source.read_bytes(), BYTES)
        gush.copyfile(link, self.target, follow_symlinks=False)
        self.assertEqual(os.readlink(self.target), os.fspath(self.source))

    def test_a_file_that_the_kernel_makes_up(self):
        for copyfile in (gush.copyfile, shutil.copyfile):
            copyfile("/proc/version", self.target)
            self.assertEqual(self.target.read_bytes(), Path("/proc/version").read_bytes())

    def test_the_name_of_a_directory_that_is_no_file(self):
        for copyfile in (gush.copyfile, shutil.copyfile):
            with self.assertRaises(IsADirectoryError) as raised:
                copyfile(self.dir, self.target)
            self.assertEqual(raised.exception.filename, str(self.dir))


class CtrlC(unittest.TestCase):
    """A child reports that it begins, gets SIGINT, and says which exception came."""

    def interrupt(self, body):
        program = (
            "import gush, os, signal, socket, sys, threading\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "reading, writing = os.pipe()\n"
            "try:\n"
            "    print('begins', flush=True)\n"
            f"    {body}\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', flush=True)\n"
        )
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        with child:
            self.assertEqual(child.stdout.readline(), "begins\n")
            child.send_signal(2)
            self.assertEqual(child.stdout.readline(), "interrupted\n")
        self.assertEqual(child.returncode, 0)

    def test_a_copy_that_never_ends(self):
        self.interrupt("gush.copy(open('/dev/zero', 'rb'), open('/dev/null', 'wb'))")

    def test_a_source_that_is_idle(self):
        self.interrupt("gush.copy(reading, open('/dev/null', 'wb'))")
        self.interrupt("gush.copy(open(reading, 'rb'), open('/dev/null', 'wb'))")

    def test_a_target_that_nobody_reads(self):
        self.interrupt("gush.copy(open('/dev/zero', 'rb'), writing)")
        self.interrupt("left, right = socket.socketpair(); gush.copy(open('/dev/zero', 'rb'), left)")

    def test_a_writer_whose_pipe_is_full(self):
        self.interrupt("gush.Writer(writing).write(bytes(1 << 26))")


if __name__ == "__main__":
    unittest.main()
