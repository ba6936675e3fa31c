# cmake -DSRC=... -DOBJECTS=FILE -DNM=... -DMAP=FILE -P export_map.cmake
#
# Writes the linker's list of what the shared library shows: the functions and data of rlgen that
# the sources behind the public headers define. OBJECTS names a file with the paths of objects, one
# a line; those of contract, generation and api count whole, others where their header is public.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake)

find_public_headers(${SRC} headers)
file(STRINGS ${OBJECTS} objects)
set(public "")
foreach(object IN LISTS objects)
  string(REGEX REPLACE ".*/rlgen_([a-z]+)\\.dir/(\\./)?(.*)\\.cpp\\.o$" "\\1/\\3.h" header "${object}")
  if(header IN_LIST headers OR object MATCHES "/rlgen_(contract|generation|api)\\.dir/")
    list(APPEND public ${object})
  endif()
endforeach()

execute_process(COMMAND ${NM} --defined-only --extern-only --format=posix ${public}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
# Strong symbols, and the tables of classes, which those who derive from one share. What else is weak
# is inline: users compile it for themselves.
string(REGEX MATCHALL "\n(_ZNK?5rlgen[A-Za-z0-9_.]* [TDRB]|_ZT[VIS]N5rlgen[A-Za-z0-9_.]* [DRV]) " lines
  "\n${symbols}")
string(JOIN "" text ${lines})
string(REGEX REPLACE "\n([^ ]+) [TDRBV] " "    \\1;\n" text "${text}")
file(WRITE ${MAP} "{\n  global:\n${text}  local:\n    *;\n};\n")
