/* Included before a C++ source that is compiled on a newer Linux than it has to load on: it covers
 * what moved or is new since glibc 2.28 and its libstdc++. */
#include <dlfcn.h>
#include <new>
/* Since 2.34 dlopen and the like are in libc itself, which also has their former names. */
#if __GLIBC_PREREQ(2, 34)
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
