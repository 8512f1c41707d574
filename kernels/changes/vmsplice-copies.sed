# vmsplice(2) into a pipe copies, as one development tree of 2026 has it: an ordinary write, and EOPNOTSUPP where a
# pipe without FMODE_NOWAIT (a FIFO) is asked not to wait.
/^SYSCALL_DEFINE4(vmsplice,/i\
static ssize_t vmsplice_copies(struct file *file, struct iov_iter *iter, unsigned int flags)\
{\
	struct kiocb kiocb;\
\
	init_sync_kiocb(&kiocb, file);\
	if (flags & SPLICE_F_NONBLOCK) {\
		if (!(file->f_mode & FMODE_NOWAIT))\
			return -EOPNOTSUPP;\
		kiocb.ki_flags |= IOCB_NOWAIT;\
	}\
	return file->f_op->write_iter(&kiocb, iter);\
}\

s/error = vmsplice_to_pipe(/error = vmsplice_copies(/
# The function that lends pages has no caller left.
s/^static ssize_t vmsplice_to_pipe(/static ssize_t __maybe_unused vmsplice_to_pipe(/
