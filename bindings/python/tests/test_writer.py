"""gush.Writer and gush.pipeline."""

import array
import errno
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import gush


class Writer(unittest.TestCase):
    def written(self, act):
        reading, writing = os.pipe()
        got = []

        def drain():
            with open(reading, "rb") as source:
                got.append(source.read())

        thread = threading.Thread(target=drain)
        thread.start()
        try:
            act(open(writing, "wb"))
        finally:
            thread.join()
        return got[0]

    def test_pieces_of_every_size_and_kind_arrive_in_order(self):
        pieces = [b"", b"x" * 10, bytearray(b"y" * 70_000), memoryview(b"z" * 3_000_000), array.array("I", [1, 2, 3])]

        def act(pipe):
            with gush.Writer(pipe) as out:
                for piece in pieces:
                    self.assertEqual(out.write(piece), memoryview(piece).nbytes)
            self.assertTrue(out.closed and pipe.closed)

        self.assertEqual(self.written(act), b"".join(bytes(piece) for piece in pieces))

    def test_the_modules_of_python_take_it_for_a_file(self):
        def act(pipe):
            pipe.write(b"first, ")
            with io.TextIOWrapper(gush.Writer(pipe), "utf-8") as text:
                print("zwölf", 12, file=text)
                text.writelines(["a\n", "b\n"])

        self.assertEqual(self.written(act).decode(), "first, zwölf 12\na\nb\n")

    def test_a_copy_into_it_comes_behind_what_it_collected(self):
        def act(pipe):
            with gush.Writer(pipe) as out, open("/proc/version", "rb") as source:
                out.write(b"version: ")
                gush.copy(source, out)

        self.assertEqual(self.written(act), b"version: " + Path("/proc/version").read_bytes())

    def test_closefd(self):
        reading, writing = os.pipe()
        with gush.Writer(writing, closefd=False) as out:
            out.write(b"a")
        os.write(writing, b"b")
        self.assertEqual(os.read(reading, 9), b"ab")
        gush.Writer(writing).close()
        self.assertEqual(os.read(reading, 9), b"")
        with self.assertRaises(OSError):
            os.fstat(writing)
        os.close(reading)

    def test_a_reader_that_is_gone(self):
        reading, writing = os.pipe()
        os.close(reading)
        out = gush.Writer(writing)
        with self.assertRaises(BrokenPipeError) as raised:
            out.write(bytes(1 << 20))
        call = raised.exception.operation
        self.assertIn(call, ("splice", "write", "sendto"))
        self.assertEqual(raised.exception.strerror, f"{call} failed on the target: Broken pipe")
        for late in (lambda: out.write(b"late"), out.flush):
            with self.assertRaises(OSError) as raised:
                late()
            self.assertEqual(raised.exception.errno, errno.EIO)
            self.assertIn(f"after the failed {call}", str(raised.exception))
        out.close()

    def test_a_failure_names_the_call_and_the_file(self):
        with open("/dev/full", "wb", buffering=0) as full:
            out = gush.Writer(full)
            out.write(b"collected")
            with self.assertRaises(gush.Error) as raised:
                out.flush()
            self.assertEqual((raised.exception.operation, raised.exception.filename), ("write", "/dev/full"))
            out.close()
        with open("/dev/null", "rb") as null, self.assertRaises(gush.Error) as raised:
            gush.Writer(null)
        self.assertEqual((raised.exception.operation, raised.exception.filename), ("write", "/dev/null"))

    def test_the_first_failure_leaves_a_with_statement(self):
        reading, writing = os.pipe()
        os.close(reading)
        with self.assertRaises(BrokenPipeError):
            with gush.Writer(writing) as out:
                out.write(bytes(1 << 20))
        reading, writing = os.pipe()
        with self.assertRaises(BrokenPipeError):
            with gush.Writer(writing) as out:
                out.write(b"collected")
                os.close(reading)

    def test_wrong_arguments(self):
        with open("/dev/null", "wb") as null:
            out = gush.Writer(null)
            with self.assertRaises(TypeError):
                out.write("text")
            with self.assertRaises(TypeError):
                out.write(5)
            with self.assertRaises(io.UnsupportedOperation):
                out.read()
            self.assertIsInstance(out, io.BufferedIOBase)
            self.assertTrue(out.writable() and not out.readable() and not out.seekable())
            self.assertEqual((out.technique, out.fileno()), ("write", null.fileno()))
            out.close()
            out.close()
            with self.assertRaises(ValueError):
                out.write(b"late")
        with self.assertRaises(TypeError):
            gush.Writer(io.StringIO())
        with self.assertRaises(io.UnsupportedOperation):
            gush.Writer(io.BytesIO())
        with open("/dev/null", "rb") as null, self.assertRaises(OSError):
            gush.Writer(null)

    def test_a_pipe_closed_by_its_owner(self):
        reading, writing = os.pipe()
        pipe = open(writing, "wb")
        out = gush.Writer(pipe)
        pipe.close()
        with self.assertRaises(ValueError):
            out.write(b"late")
        out.close()
        os.close(reading)

    def test_a_pipe_closed_by_its_owner_after_a_piece(self):
        reading, writing = os.pipe()
        pipe = open(writing, "wb")
        out = gush.Writer(pipe)
        out.write(b"collected")
        with tempfile.TemporaryFile() as other:
            pipe.close()
            # The number is another file's now, which gets none of the bytes.
            os.dup2(other.fileno(), writing)
            with self.assertRaises(ValueError):
                out.write(bytes(1 << 20))
            with self.assertRaises(ValueError):
                out.flush()
            with self.assertRaises(ValueError):
                out.close()
            out.close()
            self.assertTrue(out.closed)
            self.assertEqual(os.fstat(other.fileno()).st_size, 0)
        os.close(writing)
        os.close(reading)

    def test_a_method_taken_before_the_close(self):
        with open("/dev/null", "wb") as null:
            with gush.Writer(null) as out:
                write = out.write
                write(b"one")
            for data in (b"late", bytes(1 << 20)):
                with self.assertRaisesRegex(ValueError, "write to closed file"):
                    write(data)

    def test_a_subclass_has_its_own_write(self):
        class Upper(gush.Writer):
            def write(self, data):
                return super().write(bytes(data).upper())

        def act(pipe):
            with Upper(pipe) as out:
                self.assertEqual(out.write(b"one "), 4)
                out.writelines([b"two ", b"three"])

        self.assertEqual(self.written(act), b"ONE TWO THREE")

    def test_a_handler_that_calls_the_waiting_writer(self):
        go_on, refused = threading.Event(), []

        def handle(_number, _frame):
            for call in (lambda: out.write(b"one"), out.flush, out.close):
                with self.assertRaisesRegex(RuntimeError, "reentrant") as raised:
                    call()
                refused.append(raised.exception)
            go_on.set()

        reading, writing = os.pipe()
        out = gush.Writer(writing)
        got = []

        def drain():
            go_on.wait(20)
            with open(reading, "rb") as source:
                got.append(len(source.read()))

        thread = threading.Thread(target=drain)
        thread.start()
        old = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            out.write(bytes(8 << 20))
        finally:
            signal.signal(signal.SIGALRM, old)
            out.close()
            thread.join()
        self.assertEqual((len(refused), got), (3, [8 << 20]))

    def test_several_threads_take_turns(self):
        def act(pipe):
            with gush.Writer(pipe) as out:
                threads = [threading.Thread(target=out.write, args=(bytes([n]) * 500_000,)) for n in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

        got = self.written(act)
        self.assertEqual(sorted(got.count(bytes([n])) for n in range(4)), [500_000] * 4)


class Pipeline(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.dir = Path(held.name)

    def test_a_file_through_commands_into_a_file(self):
        source, target = self.dir / "source", self.dir / "target"
        source.write_text("c\na\nb\n")
        self.assertEqual(gush.pipeline([source, ["sort"], ["tr", "a-c", "x-z"], target]), [0, 0])
        self.assertEqual(target.read_text(), "x\ny\nz\n")

    def test_open_files_at_both_ends(self):
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
            source.write(b"within")
            source.seek(0)
            gush.pipeline([source, ("cat",), target])
            self.assertEqual(os.pread(target.fileno(), 9, 0), b"within")

    def test_a_command_that_fails(self):
        null = self.dir / "null"
        with self.assertRaises(subprocess.CalledProcessError) as caught:
            gush.pipeline([["false"], ["cat"], null])
        self.assertEqual(caught.exception.cmd, ["false"])
        self.assertEqual(gush.pipeline([["false"], ["cat"], null], check=False), [1, 0])
        self.assertEqual(gush.pipeline([["yes"], ["head", "-n", "1"], null])[1], 0)

    def test_wrong_arguments(self):
        for stages, kind in (([], ValueError), (["a", "b"], ValueError), ([["cat"], "x", ["cat"]], TypeError), ([[]], ValueError)):
            with self.assertRaises(kind):
                gush.pipeline(stages)
        before = os.listdir("/proc/self/fd")
        with self.assertRaises(FileNotFoundError):
            gush.pipeline([["cat", "/dev/null"], ["no-such-program"]])
        with self.assertRaises(FileNotFoundError):
            gush.pipeline([self.dir / "missing", ["cat"]])
        self.assertEqual(len(os.listdir("/proc/self/fd")), len(before))


class Doctor(unittest.TestCase):
    def test_facts(self):
        facts = gush.doctor()
        self.assertGreaterEqual(facts["processors"], 1)
        self.assertGreaterEqual(facts["pipe_max_bytes"], 4096)
        self.assertIn("splice", facts["methods"])
        self.assertEqual(facts["version"], gush.__version__)


if __name__ == "__main__":
    unittest.main()
