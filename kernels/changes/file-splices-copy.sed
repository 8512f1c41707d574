# splice(2) and sendfile(2) from a regular file copy, as files with O_DIRECT do already (copy_splice_read); tee(2) and
# splices out of a pipe go on to share pages.
s/if ((in->f_flags & O_DIRECT) || IS_DAX(in->f_mapping->host))/if ((in->f_flags \& O_DIRECT) || S_ISREG(file_inode(in)->i_mode))/
