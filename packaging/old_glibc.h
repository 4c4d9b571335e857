/* Included ahead of a C++ source that is compiled on a newer Linux than it is to load on: what has
 * moved since glibc 2.28 and its libstdc++, or is new. */
#include <dlfcn.h>
#include <new>
#if __GLIBC_PREREQ(2, 34) /* dlopen and the like are libc's own; their former names are there \
			     still */
#ifdef __aarch64__
#define FIRST "GLIBC_2.17"
#else
#define FIRST "GLIBC_2.2.5"
#endif
__asm__(".symver dlopen, dlopen@" FIRST);
__asm__(".symver dlsym, dlsym@" FIRST);
__asm__(".symver dlerror, dlerror@" FIRST);
#endif
#if __GLIBC_PREREQ(2, 32) /* libstdc++ asks whether there is one thread: "no" is always right */
#include <sys/single_threaded.h>
char __libc_single_threaded = 0;
__asm__(".hidden __libc_single_threaded");
#endif
/* New in libstdc++ 11. */
namespace std {
void __throw_bad_array_new_length() { throw bad_alloc(); }
} // namespace std
__asm__(".hidden _ZSt28__throw_bad_array_new_lengthv");
