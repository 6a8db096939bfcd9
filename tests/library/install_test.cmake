# Installs the build into a folder of its own and looks at it as a host does; then adds the sources
# to a host. Nothing of ours is compiled again.
#   cmake -DSOURCE=... -DBUILD=... -DIN_TREE=... -DCXX=... -DCXX_FLAGS=... -DVERSION=... -P install_test.cmake
cmake_minimum_required(VERSION 3.25)

# A name that no other run has: several trees are tested at once.
string(SHA1 unique ${BUILD})
string(SUBSTRING ${unique} 0 12 unique)
set(here $ENV{TMPDIR})
if(NOT here)
  set(here /tmp)
endif()
set(here ${here}/pipeledger_library_${unique})
file(REMOVE_RECURSE ${here})
file(MAKE_DIRECTORY ${here})

# run(WHERE COMMAND...): its output in `out`.
function(run where)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${where}
                  RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${result}\n${out}\n${err}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

# Installed: every file where its reader looks for it.
set(prefix ${here}/prefix)
run(${here} ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
foreach(file bin/pipeledger include/pipeledger/pipeledger.h share/man/man1/pipeledger.1
             share/bash-completion/completions/pipeledger share/zsh/site-functions/_pipeledger
             share/fish/vendor_completions.d/pipeledger.fish share/doc/pipeledger/LICENSE
             share/doc/pipeledger/README.md share/doc/pipeledger/docs/scenario.md
             share/doc/pipeledger/examples/tiny.json)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
file(GLOB beside RELATIVE ${prefix}/include ${prefix}/include/*)
if(NOT beside STREQUAL "pipeledger")
  message(FATAL_ERROR "include/ holds ${beside}; only pipeledger/ is ours")
endif()
run(${here} ${prefix}/bin/pipeledger --version)
if(NOT out STREQUAL "pipeledger ${VERSION}\n")
  message(FATAL_ERROR "the installed program is ${out}")
endif()

# A host that finds it: the example builds and tells what it tells inside the tree.
run(${here} ${CMAKE_COMMAND} -S ${SOURCE}/examples/library -B found -G Ninja
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}")
run(${here} ${CMAKE_COMMAND} --build found)
file(MAKE_DIRECTORY ${here}/in_tree)
run(${here}/found ${here}/found/plan)
set(found "${out}")
run(${here}/in_tree ${IN_TREE})
if(NOT found STREQUAL "${out}" OR NOT found MATCHES "\nbest: parallel.virtual_pipeline_model_parallel_size=")
  message(FATAL_ERROR "the example tells, installed:\n${found}\nand in the tree:\n${out}")
endif()
foreach(file summary.json memory.csv step.pb step.svg trace.json.gz)
  if(NOT EXISTS ${here}/found/out/${file})
    message(FATAL_ERROR "the example left no ${file}")
  endif()
endforeach()

# A host that adds the sources, and has targets, tests and an installation of its own.
file(WRITE ${here}/host/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(host CXX)
foreach(name base spec trace sim cli tests)
  add_library(\${name} INTERFACE)
endforeach()
enable_testing()
add_subdirectory(${SOURCE} pipeledger)
if(NOT TARGET pipeledger::pipeledger)
  message(FATAL_ERROR \"there is no target pipeledger::pipeledger\")
endif()
get_directory_property(options COMPILE_OPTIONS)
get_directory_property(includes INCLUDE_DIRECTORIES)
if(options OR includes)
  message(FATAL_ERROR \"the host gets \${options} \${includes}\")
endif()
")
run(${here} ${CMAKE_COMMAND} -S host -B added -G Ninja -DCMAKE_CXX_COMPILER=${CXX})
run(${here}/added ${CMAKE_CTEST_COMMAND} -N)
if(NOT out MATCHES "Total Tests: 0")
  message(FATAL_ERROR "a host gets our tests:\n${out}")
endif()
run(${here} ${CMAKE_COMMAND} --install added --prefix ${here}/host_prefix)
file(GLOB_RECURSE installed ${here}/host_prefix/*)
if(installed)
  message(FATAL_ERROR "a host installs ours: ${installed}")
endif()
file(REMOVE_RECURSE ${here})
