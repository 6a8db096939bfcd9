# Copies the public headers, pipeledger/*.h and every header of ours that these include, to
# ${OUT}/pipeledger, so that a host sees one folder: "spec/scenario.h" becomes
# "pipeledger/spec/scenario.h" there. Any other include but the standard library's is an error.
#   cmake -DSOURCE=... -DOUT=... -P public_headers.cmake
# Leaves ${OUT}/stamp, and in ${OUT}/stamp.d what it depends on.
cmake_minimum_required(VERSION 3.25)

file(GLOB waiting RELATIVE ${SOURCE} ${SOURCE}/pipeledger/*.h)
set(seen ${waiting})
set(written "")
while(waiting)
  list(POP_FRONT waiting header)
  file(READ ${SOURCE}/${header} text)
  string(REGEX MATCHALL "#include [<\"][^>\"\n]+" includes "${text}")
  foreach(include ${includes})
    if(include MATCHES "#include <([a-z_]+)$")
      continue()
    endif()
    string(REGEX REPLACE "#include [<\"]" "" name "${include}")
    if(NOT EXISTS ${SOURCE}/${name})
      message(FATAL_ERROR "${header} is public and includes ${name}, which a host may not have")
    endif()
    if(NOT name IN_LIST seen)
      list(APPEND seen ${name})
      list(APPEND waiting ${name})
    endif()
  endforeach()
  string(REGEX REPLACE "#include \"([^\"]+)\"" "#include \"pipeledger/\\1\"" text "${text}")
  string(REPLACE "\"pipeledger/pipeledger/" "\"pipeledger/" text "${text}")
  string(REGEX REPLACE "^pipeledger/" "" copy ${header})
  list(APPEND written ${OUT}/pipeledger/${copy})
  # What did not change keeps its time, so that nothing is compiled again.
  file(CONFIGURE OUTPUT ${OUT}/pipeledger/${copy} CONTENT "${text}" @ONLY)
endwhile()

file(GLOB_RECURSE there ${OUT}/pipeledger/*.h)
list(REMOVE_ITEM there ${written})
if(there)
  file(REMOVE ${there})
endif()
list(TRANSFORM seen PREPEND ${SOURCE}/)
list(JOIN seen " \\\n  " needed)
file(WRITE ${OUT}/stamp.d "${OUT}/stamp: \\\n  ${needed}\n")
file(TOUCH ${OUT}/stamp)
