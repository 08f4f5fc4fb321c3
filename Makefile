# muster: one executable, its tests and tools. `make help` lists the targets; `make print-VAR` shows a variable.
# One object folder per configuration (compiler, optimisation, sanitizer), so switching options never mixes objects.

CXX       ?= g++
ARCH      ?= native
OPT       ?= -O3
WERROR    ?= 1
SANITIZE  ?=
DEBUG     ?= 0
PREFIX    ?= /usr/local
CUDA      ?=
CUDA_ARCH ?= 80 90
empty     :=
.DEFAULT_GOAL := all
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)   # a -j of the command line wins
endif
comma     := ,

ifeq ($(DEBUG),1)
OPT       := -O0
endif
CONFIG_NAME := $(notdir $(CXX))$(subst $(empty) ,,$(OPT))-$(ARCH)$(if $(SANITIZE),-$(subst $(comma),+,$(SANITIZE)))$(if $(filter 0,$(CUDA)),-nocuda)
BUILD     ?= build/$(CONFIG_NAME)

# -Wno-psabi: vectors wider than the machine's own are passed in memory, and every object of a build agrees on that.
# (g++ 12 takes fmt 9's own bounds-checked fill character for an overflow when it inlines the format parser)
WARNINGS  := -Wall -Wextra -Wshadow -Wno-stringop-overflow -Wno-psabi $(if $(filter 1,$(WERROR)),-Werror)
# (g++ 12 sees uninitialised members of an empty std::optional in instrumented code; the thread sanitizer does not follow
# fences, which parameter servers use between processes, where it does not look anyway)
SANFLAGS  := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -Wno-maybe-uninitialized) \
             $(if $(findstring thread,$(SANITIZE)),-Wno-tsan)
# -fno-math-errno: without it sqrt is a call and the loops of the optimizers do not vectorise.
CXXFLAGS  += -std=c++20 $(OPT) -march=$(ARCH) -fno-math-errno -g1 -fopenmp $(WARNINGS) $(SANFLAGS) -MMD -MP -Iinclude -Isrc
LDFLAGS   += -fopenmp $(SANFLAGS) -Wl,--as-needed

# ---- what the machine has: real compile-and-link probes, kept in $(BUILD)/found.mk
# (not read by the goals that need nothing, nor by those that install first and then call make again)
ifneq ($(filter-out help clean deps test-deps check demo probe,$(or $(MAKECMDGOALS),all)),)
-include $(BUILD)/found.mk
endif
ifeq ($(CUDA)$(CUDA_FOUND),10)
$(error CUDA=1 asks for the GPU plugin, but no CUDA was found when $(BUILD)/found.mk was made; if it is there now: make probe CUDA=1)
endif
$(BUILD)/found.mk: jobs/make/probe.sh
	@mkdir -p $(@D)
	@CXX="$(CXX)" CXXFLAGS="-std=c++20" CUDA="$(CUDA)" bash jobs/make/probe.sh $@

# ---- sources: every .cpp below src; the flags of a library only where the layer map allows it
# (those of the GPU plugin go into a library of their own)
SOURCES   := $(sort $(filter-out src/cli/main.cpp src/device/cuda/%,$(wildcard src/*/*.cpp src/*/*/*.cpp)))
OBJECTS   := $(SOURCES:%.cpp=$(BUILD)/%.o)
MAIN      := $(BUILD)/src/cli/main.o
LIBS       = $(MPI_LIBS) $(HDF5_LIBS) $(DNNL_LIBS) $(YAML_LIBS) $(BOOST_LIBS) $(FMT_LIBS) $(ZLIB_LIBS) $(XXHASH_LIBS) -ldl

# Where no arithmetic is, compile time counts.
$(BUILD)/src/cli/%.o $(BUILD)/src/config/%.o $(BUILD)/test/unit/%.o $(BUILD)/test/ranks/%.o: OPT := $(if $(filter -O3,$(OPT)),-O1,$(OPT))
MPI_CFLAGS = $(MPI_FLAGS) -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX   # no C++ bindings, long removed from MPI
$(BUILD)/src/comm/mpi/%.o:     CXXFLAGS += $(MPI_CFLAGS)
$(BUILD)/src/dataset/hdf5/%.o: CXXFLAGS += $(HDF5_FLAGS)
$(BUILD)/src/device/cpu/%.o:   CXXFLAGS += $(DNNL_FLAGS)
$(BUILD)/src/config/%.o:       CXXFLAGS += $(YAML_FLAGS)

ifneq ($(V),1)
Q := @
say = @printf '  %-8s %s\n' "$(1)" "$(2)"
endif

# ---- the GPU plugin, where CUDA was found: opened at run time, it finds muster's functions in the executable. A second
# one has the same host objects, kernels compiled by the plain compiler, and doubles of CUDA's libraries: for the tests.
CUDA_OBJECTS  := $(patsubst %.cpp,$(BUILD)/plugin/%.o,$(wildcard src/device/cuda/*.cpp))
CUDA_KERNELS  := $(wildcard src/device/cuda/*.cu)
CUDA_CODE     := $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
                 -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))
DOUBLE_OBJECTS := $(patsubst %.cpp,$(BUILD)/plugin/%.o,$(wildcard test/cuda_emulation/*.cpp))
PLANTED       := $(patsubst %.cpp,$(BUILD)/plugin/emulated/%.o,$(wildcard test/cuda/emulation/*.cpp))
EMULATED      := $(CUDA_KERNELS:%.cu=$(BUILD)/plugin/emulated/%.o)
ifeq ($(CUDA_FOUND),1)
LDFLAGS       += -Wl,--export-dynamic
PLUGIN        := $(BUILD)/libmuster_cuda.so
ifeq ($(SANITIZE),)   # fibers and sanitizers do not go together
EMULATION     := $(BUILD)/test/libmuster_cuda_emulated.so
CUDA_TEST     := $(BUILD)/test/cuda_backend_tests $(BUILD)/test/cuda_emulation_tests
endif
endif

all: $(BUILD)/muster $(PLUGIN)

$(BUILD)/muster: $(MAIN) $(OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $^ $(LIBS) -o $@
	$(if $(filter build/%,$(BUILD)),$(Q)ln -sfn $(@:build/%=%) build/muster)

$(BUILD)/%.o: %.cpp | $(BUILD)/found.mk
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS) -DMUSTER_BUILD='"$(CONFIG_NAME)"' -c $< -o $@

$(BUILD)/plugin/%.o: %.cpp | $(BUILD)/found.mk
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS) -fPIC -Itest $(CUDA_FLAGS) -c $< -o $@

$(BUILD)/plugin/%.cu.o: %.cu | $(BUILD)/found.mk
	$(call say,NVCC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CUDA_ROOT)/bin/nvcc -ccbin $(lastword $(CXX)) -std=c++20 -O3 -Xcompiler -fPIC,-Wall $(CUDA_CODE) -Iinclude -Isrc -MMD -MP -c $< -o $@

$(BUILD)/plugin/emulated/%.o: %.cu | $(BUILD)/found.mk
	$(call say,CXX,$< (emulated))
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -Itest/cuda_emulation/replace $(CXXFLAGS) -fPIC -Itest $(CUDA_FLAGS) -x c++ -c $< -o $@

$(BUILD)/plugin/emulated/%.o: %.cpp | $(BUILD)/found.mk
	$(call say,CXX,$< (emulated))
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -Itest/cuda_emulation/replace $(CXXFLAGS) -fPIC -Itest $(CUDA_FLAGS) $(GTEST_FLAGS) -c $< -o $@

$(BUILD)/libmuster_cuda.so: $(CUDA_OBJECTS) $(CUDA_KERNELS:%=$(BUILD)/plugin/%.o)
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared $^ $(CUDA_LIBS) -o $@

$(BUILD)/test/libmuster_cuda_emulated.so: $(CUDA_OBJECTS) $(EMULATED) $(DOUBLE_OBJECTS)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -shared -Wl,-Bsymbolic $^ $(filter -Wl$(comma)-rpath%,$(CUDA_LIBS)) -ldl -o $@

# ---- tests: one binary per module, one for all rank tests
UNIT_DIRS  := $(sort $(dir $(wildcard test/unit/*/*.cpp)))
UNIT_TESTS := $(foreach d,$(UNIT_DIRS),$(BUILD)/test/unit_$(notdir $(patsubst %/,%,$(d))))
RANK_SRC   := $(sort $(wildcard test/ranks/*.cpp test/ranks/*/*.cpp))
RANK_TEST  := $(if $(filter-out test/ranks/main.cpp,$(RANK_SRC)),$(BUILD)/test/rank_tests)
CUDA_TEST_SRC := $(sort $(wildcard test/cuda/backend/*.cpp))
TEST_OBJ   := $(patsubst %.cpp,$(BUILD)/%.o,$(sort $(wildcard test/unit/*/*.cpp) $(CUDA_TEST_SRC) $(RANK_SRC) $(wildcard test/bench/*.cpp)))
BENCHES    := $(patsubst test/bench/%.cpp,$(BUILD)/test/bench_%,$(wildcard test/bench/*.cpp))

$(TEST_OBJ): CXXFLAGS += -Itest $(GTEST_FLAGS) $(BENCHMARK_FLAGS)
$(BUILD)/test/ranks/%.o:       CXXFLAGS += $(MPI_CFLAGS)

define unit_rule
$(BUILD)/test/unit_$(notdir $(patsubst %/,%,$(1))): $(patsubst %.cpp,$(BUILD)/%.o,$(wildcard $(1)*.cpp)) $(OBJECTS)
	$$(call say,LINK,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CXX) $$(LDFLAGS) $$^ $$(LIBS) -lgtest_main $$(GTEST_LIBS) -o $$@
endef
$(foreach d,$(UNIT_DIRS),$(eval $(call unit_rule,$(d))))

$(BUILD)/test/rank_tests: $(RANK_SRC:%.cpp=$(BUILD)/%.o) $(OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $^ $(LIBS) $(GTEST_LIBS) -o $@

$(BUILD)/test/bench_%: $(BUILD)/test/bench/%.o $(OBJECTS)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(LDFLAGS) $^ $(LIBS) $(BENCHMARK_LIBS) -o $@

$(BUILD)/test/cuda_backend_tests: $(patsubst %.cpp,$(BUILD)/%.o,$(wildcard test/cuda/backend/*.cpp)) $(OBJECTS) $(EMULATION)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $(filter %.o,$^) $(LIBS) -lgtest_main $(GTEST_LIBS) -o $@

$(BUILD)/test/cuda_emulation_tests: $(PLANTED) $(DOUBLE_OBJECTS)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(LDFLAGS) $^ $(FMT_LIBS) -lgtest_main $(GTEST_LIBS) -o $@

tests: $(BUILD)/muster $(UNIT_TESTS) $(RANK_TEST) $(PLUGIN) $(EMULATION) $(CUDA_TEST)

# (the tests are named by a make of their own: this one has not read what was found)
check: test-deps
	$(Q)$(MAKE) --no-print-directory run-tests

run-tests: tests
	$(if $(CUDA_TEST),,@echo '  left out: the tests of the GPU plugin and its emulation ($(if $(SANITIZE),not with sanitizers,no CUDA was found; make probe says why))')
	$(Q)BUILD="$(BUILD)" bash test/run.sh $(notdir $(UNIT_TESTS)) $(notdir $(CUDA_TEST)) $(notdir $(RANK_TEST))

check-gpu: $(BUILD)/muster $(PLUGIN) $(CUDA_TEST)
	$(if $(CUDA_TEST),,$(error no CUDA was found; make probe says why))
	@BUILD="$(BUILD)" CUDA_HOME="$(CUDA_ROOT)" bash test/cuda/check_gpu.sh

deps:
	@bash jobs/setup/install_packages.sh

test-deps:
	@bash jobs/setup/install_packages.sh tests

demo: deps
	$(Q)$(MAKE) --no-print-directory all
	$(Q)MUSTER="$(BUILD)/muster" bash jobs/demo.sh

# Each header compiles alone: a stamp per header, so that a second run is quick.
HEADERS    := $(sort $(shell find include src test -name '*.hpp'))
ifneq ($(CUDA_FOUND),1)
HEADERS    := $(filter-out src/device/cuda/% test/cuda_emulation/%,$(HEADERS))
endif
HEADERS_OK := $(HEADERS:%=$(BUILD)/lint/%.ok)

$(BUILD)/lint/%.ok: % | $(BUILD)/found.mk
	$(call say,HEADER,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS) -Itest $(MPI_CFLAGS) $(HDF5_FLAGS) $(YAML_FLAGS) $(CUDA_FLAGS) -O0 -fsyntax-only -Wno-unused -x c++ -include $< /dev/null -MF $@.d -MT $@
	$(Q)touch $@

lint: $(HEADERS_OK)
	@bash test/lint/lint.sh

format:
	clang-format -i $(shell find include src test -name '*.hpp' -o -name '*.cpp')

bench: $(BUILD)/muster $(BENCHES)
	@BUILD="$(BUILD)" bash test/bench/run.sh

install: $(BUILD)/muster $(PLUGIN)
	install -D -m 755 $(BUILD)/muster $(DESTDIR)$(PREFIX)/bin/muster
	$(if $(PLUGIN),install -D -m 755 $(PLUGIN) $(DESTDIR)$(PREFIX)/lib/libmuster_cuda.so)
	install -D -m 755 jobs/mpirun/muster-run $(DESTDIR)$(PREFIX)/bin/muster-run
	mkdir -p $(DESTDIR)$(PREFIX)/share/muster && cp -r configs $(DESTDIR)$(PREFIX)/share/muster/

clean:
	rm -rf build

probe:
	@rm -f $(BUILD)/found.mk && $(MAKE) --no-print-directory $(BUILD)/found.mk

print-%:
	@echo '$* = $($*)'

help:
	@echo 'make            build $(BUILD)/muster (also linked as build/muster)'
	@echo 'make demo       install what is missing, build, train a CNN on Fashion-MNIST with 2 ranks'
	@echo 'make check      install what is missing, build, run every test'
	@echo 'make check-gpu  the GPU backend on a card: ops, sanitizer, a short training'
	@echo 'make lint       layer map, headers alone, format, sizes'
	@echo 'make format     clang-format over the tree'
	@echo 'make bench      timed comparisons, side by side in one run'
	@echo 'make install    PREFIX=$(PREFIX)'
	@echo 'make probe      what was found and what is missing'
	@echo 'make clean      remove build/'
	@echo 'make print-VAR  show a variable'
	@echo 'variables       CXX=$(CXX) ARCH=$(ARCH) OPT=$(OPT) DEBUG=0|1 SANITIZE=address,undefined | thread  V=1 WERROR=0'
	@echo '                CUDA=0|1 (default: as found)  CUDA_HOME  CUDA_ARCH="$(CUDA_ARCH)": the GPU plugin'

-include $(wildcard $(HEADERS_OK:=.d))

.PHONY: all tests check run-tests check-gpu deps test-deps demo lint format bench install clean probe help
.SECONDARY:
.DELETE_ON_ERROR:

-include $(OBJECTS:.o=.d) $(MAIN:.o=.d) $(TEST_OBJ:.o=.d)
-include $(CUDA_OBJECTS:.o=.d) $(DOUBLE_OBJECTS:.o=.d) $(EMULATED:.o=.d) $(PLANTED:.o=.d) $(CUDA_KERNELS:%=$(BUILD)/plugin/%.d)
