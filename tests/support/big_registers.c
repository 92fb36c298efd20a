/* A processor whose registers are 11008 bytes, as with AMX, for tests on one that has fewer: loaded by LD_PRELOAD. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { ALL = 11008, NT_X86_XSTATE = 0x202 };

typedef long (*ptrace_function)(int, pid_t, void *, void *);

long ptrace(enum __ptrace_request request, ...) {
    ptrace_function real = (ptrace_function)dlsym(RTLD_NEXT, "ptrace");
    va_list rest;
    va_start(rest, request);
    pid_t pid = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *);
    struct iovec *data = va_arg(rest, void *);
    va_end(rest);
    int of_these = (long)address == NT_X86_XSTATE;
    if (request == PTRACE_SETREGSET && of_these && data->iov_len < ALL) {
        errno = EFAULT;
        return -1;
    }
    size_t asked = of_these && request == PTRACE_GETREGSET ? data->iov_len : 0;
    long outcome = real(request, pid, address, data);
    if (asked != 0 && outcome == 0)
        data->iov_len = asked < ALL ? asked : ALL;
    return outcome;
}
