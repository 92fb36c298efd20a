/* Loaded into User-mode Linux by LD_PRELOAD where the processor has more registers than it keeps room for.

   UML (up to 6.12) reads and writes a guest process's extended registers by ptrace() in a buffer of 2696 bytes. The
   host's kernel gives a part of them when asked for a part, but takes them only as a whole, and with AMX they are 11008
   bytes: so UML cannot write back what it has read and its first process dies. Here every such write is completed by
   what the process has at that moment: UML's part is UML's, the rest stays as it is. */

#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { NT_X86_XSTATE = 0x202, XSAVE_LEAF = 0xd, HEADER_AT = 512, HEADER_END = 576, COMPONENTS = 63 };

typedef long (*ptrace_function)(int, pid_t, void *, void *);

/* Which components lie wholly in the first `size` bytes. The first two are in front of the header. */
static uint64_t components_within(size_t size) {
    uint64_t found = 3;
    for (unsigned number = 2; number < COMPONENTS; number++) {
        unsigned length, offset, flags, reserved;
        __cpuid_count(XSAVE_LEAF, number, length, offset, flags, reserved);
        if (length != 0 && (size_t)offset + length <= size)
            found |= (uint64_t)1 << number;
    }
    return found;
}

static long write_whole(ptrace_function real, pid_t pid, struct iovec *part) {
    static char whole[65536] __attribute__((aligned(64)));
    static uint64_t ours;
    static size_t ours_of;
    struct iovec now = {whole, sizeof whole};
    uint64_t given, kept;

    if (real(PTRACE_GETREGSET, pid, (void *)(long)NT_X86_XSTATE, &now) < 0)
        return -1;
    if (part->iov_len >= now.iov_len || part->iov_len < HEADER_END)
        return real(PTRACE_SETREGSET, pid, (void *)(long)NT_X86_XSTATE, part);
    if (ours_of != part->iov_len) {
        ours_of = part->iov_len;
        ours = components_within(ours_of);
    }
    memcpy(&kept, whole + HEADER_AT, sizeof kept);
    memcpy(whole, part->iov_base, part->iov_len);
    memcpy(&given, whole + HEADER_AT, sizeof given);
    given = (given & ours) | (kept & ~ours);
    memcpy(whole + HEADER_AT, &given, sizeof given);
    return real(PTRACE_SETREGSET, pid, (void *)(long)NT_X86_XSTATE, &now);
}

long ptrace(enum __ptrace_request request, ...) {
    static ptrace_function real;
    va_list rest;
    va_start(rest, request);
    pid_t pid = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);
    if (real == NULL && (real = (ptrace_function)dlsym(RTLD_NEXT, "ptrace")) == NULL) {
        errno = ENOSYS;
        return -1;
    }
    if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE)
        return write_whole(real, pid, data);
    return real(request, pid, address, data);
}
