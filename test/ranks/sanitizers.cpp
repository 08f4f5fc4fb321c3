// Built with SANITIZE=address: what MPI and the libraries below it keep to the end is not ours to free. A leak is told
// apart by the modules on its stack, so MPI's plug-ins must stay loaded until the report is made.
#ifdef __SANITIZE_ADDRESS__

extern "C" int dlclose(void*) { return 0; }

// Libraries without frame pointers hide who called them from the quick look at a stack.
extern "C" const char* __asan_default_options() { return "fast_unwind_on_malloc=0"; }

extern "C" const char* __lsan_default_suppressions() {
  return "leak:libmpi.so\nleak:libopen-rte.so\nleak:libopen-pal.so\nleak:libhwloc.so\nleak:libpmix.so\nleak:libevent\n"
         "leak:/openmpi/\nleak:/pmix/\n";
}

#endif
