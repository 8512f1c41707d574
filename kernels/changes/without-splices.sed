# No vmsplice(2), splice(2) and tee(2), as under gVisor; small.config leaves io_uring out of every kernel built here.
/^SYSCALL_DEFINE4(vmsplice,/,/^}/ s/^	if (unlikely(flags & ~SPLICE_F_ALL))/	if (flags <= UINT_MAX)\n		return -ENOSYS;\n&/
/^SYSCALL_DEFINE6(splice,/,/^}/ s/^	if (unlikely(flags & ~SPLICE_F_ALL))/	if (flags <= UINT_MAX)\n		return -ENOSYS;\n&/
/^SYSCALL_DEFINE4(tee,/,/^}/ s/^	if (unlikely(flags & ~SPLICE_F_ALL))/	if (flags <= UINT_MAX)\n		return -ENOSYS;\n&/
