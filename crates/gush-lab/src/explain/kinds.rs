//! The kinds of kernel functions: a table by the beginnings of their names.
//!
//! Names differ between kernel versions; beginnings last longer. A function that is not here
//! belongs to the caller: `_raw_spin_unlock_irqrestore` below `__wake_up` is a part of waking up.

/// The kind of work that a part of the time goes into: a place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkKind(usize);

impl WorkKind {
    /// Into the kernel and out again.
    pub(super) const ENTERING: Self = Self(13);
    /// The kernel, otherwise.
    pub(super) const ELSE: Self = Self(14);
    pub const PROGRAM: Self = Self(15);

    /// In a few words.
    pub fn name(self) -> &'static str {
        KINDS[self.0].name
    }

    /// As a sentence: the work, and a way to have less of it.
    pub fn sentence(self) -> &'static str {
        KINDS[self.0].sentence
    }
}

struct CallKind {
    name: &'static str,
    sentence: &'static str,
    /// Beginnings of functions' names, without leading underscores; of all kinds the longest that
    /// fits counts.
    beginnings: &'static str,
}

const fn row(name: &'static str, sentence: &'static str, beginnings: &'static str) -> CallKind {
    CallKind { name, sentence, beginnings }
}

/// Every kind. The beginnings were read in Linux 6.12 to 7.3, those of arm64 among them.
const KINDS: &[CallKind] = &[
    row(
        "copying",
        "Bytes are copied between the program's memory and the kernel's pages; splice and vmsplice avoid it.",
        "copy_user copy_to_iter copy_from_iter copy_page_to_iter copy_page_from_iter \
         copy_folio_to_iter copy_folio_from_iter copy_to_user copy_from_user copyin copyout \
         rep_movs arch_copy pi_memcpy memcpy memmove copy_mc copy_highpage copy_page raw_copy \
         skb_copy simple_copy_to_iter csum_and_copy csum_partial_copy memcpy_to_iter \
         memcpy_from_iter",
    ),
    row(
        "page allocation",
        "The kernel finds a page for new bytes; lent and shared pages need none.",
        "alloc_pages alloc_frozen_pages alloc_pages_bulk get_page_from_freelist rmqueue \
         folio_alloc filemap_add_folio filemap_alloc_folio get_free_page anon_pipe_get_page \
         prep_new_page mem_cgroup_charge try_charge charge_memcg vma_alloc_folio shmem_alloc \
         alloc_skb skb_page_frag_refill kmem_cache_alloc kmalloc slab_alloc alloc_swap \
         post_alloc_hook get_pfnblock lru_add folio_add_lru folio_batch_move_lru \
         filemap_get_folio_create",
    ),
    row(
        "zeroing",
        "New pages are zeroed, so that no process sees another's data; reused pages need not be.",
        "clear_page clear_huge_page clear_user clear_highpage clear_subpage folio_zero \
         kernel_init_pages memset zero_user clear_gigantic init_pages pi_clear_page rep_stos",
    ),
    row(
        "page-table walk",
        "The pages of a buffer's addresses are looked up, 4 KiB at a time; one huge page replaces 512 lookups.",
        "iov_iter_get_pages iov_iter_extract gup_ get_user_pages pin_user_pages \
         internal_get_user_pages lockless_pages_from_mm iter_to_pipe try_grab_folio \
         try_get_folio follow_page follow_p fault_in_ want_pages_array gup_fast \
         extract_user_to_sg",
    ),
    row(
        "page faults",
        "Memory is touched for the first time since it was mapped; huge pages need fewer faults.",
        "handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault \
         do_anonymous_page do_huge_pmd do_fault filemap_map_pages set_pte_range do_page_fault \
         do_mem_abort handle_pte_fault wp_page do_wp_page vma_alloc_anon do_set_p \
         lock_vma_under_rcu filemap_fault",
    ),
    row(
        "locks",
        "A lock is taken or waited for: a pipe has one mutex for both ends, a file's writers one for its inode.",
        "mutex_lock mutex_unlock mutex_spin mutex_optimistic mutex_can osq_ rwsem_ down_read \
         down_write up_read up_write percpu_down percpu_up pipe_lock pipe_unlock \
         pipe_double_lock native_queued_spin_lock queued_spin_lock_slowpath lock_sock \
         release_sock folio_lock queued_read_lock queued_write_lock",
    ),
    row(
        "wake-ups",
        "A process that waits for bytes or for room is woken; larger batches and spinning need fewer wake-ups.",
        "wake_up try_to_wake_up ttwu autoremove_wake default_wake woken_wake select_task_rq \
         select_idle enqueue_task pollwake ep_poll_callback sock_def_readable sock_def_write \
         sk_stream_write_space activate_task kill_fasync wakeup_preempt check_preempt \
         smp_call_function_single_async native_smp_send_reschedule reschedule pipe_wake",
    ),
    row(
        "sleeping",
        "There is nothing to read or no room to write, so another process is picked; spinning avoids it, at the price of a processor.",
        "schedule pick_next context_switch finish_task_switch dequeue_ prepare_to_wait \
         finish_wait wait_for_space pipe_wait wait_woken add_wait_queue remove_wait_queue \
         deactivate_task psi_ update_curr put_prev switch_mm switch_to do_poll do_sys_poll \
         poll_ sk_wait_data sk_stream_wait schedule_timeout io_schedule try_to_block_task \
         prepare_task_switch newidle sched_balance wait_event",
    ),
    row(
        "dropping",
        "References to pages are given back, and the pages with the last one; fewer and larger pages cost less.",
        "page_cache_pipe_buf_release generic_pipe_buf_release anon_pipe_buf_release \
         anon_pipe_put_page put_page folio_put folios_put free_unref free_pages free_frozen \
         release_pages page_cache_release skb_release kfree consume_skb skb_free unpin_user \
         truncate_inode truncate_pagecache delete_from_page_cache shmem_undo_range \
         free_one_page free_pcppages filemap_free_folio free_swap pipe_buf_release uncharge \
         mem_cgroup_uncharge zap_p unmap_page_range free_huge page_remove_rmap \
         folio_remove_rmap kmem_cache_free tlb_ flush_tlb madvise slab_free lru_gen_del \
         skb_attempt_defer_free",
    ),
    row(
        "page cache",
        "The pages that hold a file's bytes are looked up in the page cache.",
        "filemap_get filemap_read find_get find_lock xas_ xa_ folio_mark_accessed \
         filemap_splice_read splice_folio_into_pipe shmem_get_folio shmem_file_read \
         shmem_file_splice_read page_cache_ readahead pagecache_get filemap_update \
         next_uptodate mark_page_accessed",
    ),
    row(
        "pipe and splice",
        "A pipe's slots are counted, filled in and passed on, without a look at the bytes.",
        "pipe_read pipe_write anon_pipe_read anon_pipe_write fifo_pipe splice do_splice \
         direct_splice vmsplice tee do_tee link_pipe iter_file_splice add_to_pipe \
         page_cache_pipe_buf generic_pipe_buf user_page_pipe_buf pipe_to_ pipe_buf \
         copy_splice_read opipe_prep ipipe_prep pipe_poll sendfile do_sendfile wakeup_pipe \
         get_pipe_info eat_empty splice_to warn_unsupported",
    ),
    row(
        "file system",
        "The file system maps blocks, reserves space and keeps its journal.",
        "ext4_ xfs_ btrfs_ jbd2_ iomap_ generic_perform_write shmem_ tmpfs_ balance_dirty \
         block_ submit_bio bio_ writeback f2fs_ ovl_ fuse_ nfs_ generic_file folio_mark_dirty \
         filemap_dirty mark_buffer_dirty da_ copy_file_range vfs_copy_file_range do_clone \
         generic_write fault_in_iov_iter create_empty_buffers folio_create end_buffer blk_ \
         write_begin write_end account_page_dirtied folio_account file_update_time \
         file_modified",
    ),
    row(
        "network",
        "Packets are made, passed through the protocol, and acknowledged.",
        "tcp_ ip_ ip6_ ipv4_ net_rx netif_ process_backlog napi_ dev_ loopback_ unix_ inet_ \
         sock_ skb_ sk_ nf_ neigh_ udp_ validate_xmit kernel_sendmsg bpf_ eth_ qdisc fib_ \
         raw_local_deliver",
    ),
    row(
        "system call entry",
        "Into the kernel and out again, with descriptors looked up, permission checked, and what protects against speculation; fewer and larger calls cost less.",
        "entry_ syscall_ do_syscall x64_sys arm64_sys se_sys riscv_sys invoke_syscall el0_ \
         el0t_ retbleed srso untrain_ret x86_return_thunk x86_indirect_thunk fdget fget fput \
         ksys_ vfs_read vfs_write new_sync rw_verify_area security_ apparmor_ selinux_ \
         bpf_lsm fsnotify exit_to_user clear_bhb spec_ctrl import_iovec import_ubuf audit_ \
         seccomp_ file_has_perm aa_ arch_exit irqentry do_el0_svc",
    ),
    // Of its beginnings each looks like another kind's, and is none.
    row(
        "the kernel otherwise",
        "None of what this table knows.",
        "copy_page_range copy_user_ns kmem_cache_create xa_init",
    ),
    row("the program", "The program's own code and its libraries.", ""),
];

/// A name as perf prints it, without the suffixes of compilers and the underscores in front.
fn bare(function: &str) -> &str {
    let end = function.find(".").unwrap_or(function.len());
    function[..end].trim_start_matches('_')
}

/// The kind of a kernel function, if the table has the name.
pub fn kind_of(function: &str) -> Option<WorkKind> {
    let name = bare(function);
    let each = |(place, row): (usize, &'static CallKind)| {
        row.beginnings.split_whitespace().map(move |beginning| (WorkKind(place), beginning))
    };
    let all = KINDS.iter().enumerate().flat_map(each);
    let fitting = all.filter(|(_, beginning)| name.starts_with(beginning));
    fitting.max_by_key(|(_, beginning)| beginning.len()).map(|(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_several_kernels_are_known() {
        for (function, kind) in [
            ("copy_user_generic_string", "copying"),
            ("copy_user_enhanced_fast_string", "copying"),
            ("_copy_from_iter", "copying"),
            ("__arch_copy_to_user", "copying"),
            ("__alloc_pages_noprof", "page allocation"),
            ("__alloc_frozen_pages_noprof", "page allocation"),
            ("clear_page_erms", "zeroing"),
            ("clear_page_rep", "zeroing"),
            ("iov_iter_get_pages2", "page-table walk"),
            ("internal_get_user_pages_fast", "page-table walk"),
            ("gup_fast_pte_range", "page-table walk"),
            ("mutex_spin_on_owner", "locks"),
            ("osq_lock", "locks"),
            ("__mutex_lock.constprop.0", "locks"),
            ("__wake_up_common_lock", "wake-ups"),
            ("try_to_wake_up", "wake-ups"),
            ("schedule", "sleeping"),
            ("__schedule", "sleeping"),
            ("page_cache_pipe_buf_release", "dropping"),
            ("free_unref_page", "dropping"),
            ("__folio_put", "dropping"),
            ("filemap_get_read_batch", "page cache"),
            ("shmem_get_folio_gfp", "page cache"),
            ("shmem_write_end", "file system"),
            ("ext4_da_write_begin", "file system"),
            ("tcp_sendmsg_locked", "network"),
            ("entry_SYSCALL_64_after_hwframe", "system call entry"),
            ("srso_alias_safe_ret", "system call entry"),
            ("copy_page_range", "the kernel otherwise"),
        ] {
            assert_eq!(kind_of(function).map(WorkKind::name), Some(kind), "{function}");
        }
        for unknown in ["asm_sysvec_apic_timer_interrupt", "", "___", ".isra.0"] {
            assert!(kind_of(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn no_beginning_is_there_twice_or_with_what_is_stripped() {
        let mut all: Vec<_> =
            KINDS.iter().flat_map(|kind| kind.beginnings.split_whitespace()).collect();
        all.sort();
        for pair in all.windows(2) {
            // The longer one is looked at first, so that only equal ones contradict each other.
            assert_ne!(pair[0], pair[1]);
        }
        assert!(all.iter().all(|beginning| !beginning.is_empty() && bare(beginning) == *beginning));
    }

    #[test]
    fn the_kinds_that_have_a_constant_stand_where_it_says() {
        let names = [WorkKind::ENTERING, WorkKind::ELSE, WorkKind::PROGRAM].map(WorkKind::name);
        assert_eq!(names, ["system call entry", "the kernel otherwise", "the program"]);
    }

    #[test]
    fn every_kind_has_a_sentence() {
        for kind in KINDS {
            assert!(kind.sentence.ends_with('.') && !kind.name.is_empty());
        }
    }
}
