# Run by cmake --install with SRC and INCLUDE set: puts the public headers into INCLUDE/rlgen. Their
# includes of each other are written anew to begin with rlgen/, so that they meet no other project's.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake)

find_public_headers(${SRC} headers)
foreach(header IN LISTS headers)
  file(READ ${SRC}/${header} text)
  string(REGEX REPLACE "(^|\n)#include \"" "\\1#include \"rlgen/" text "${text}")
  set(target ${INCLUDE}/rlgen/${header})
  message(STATUS "Installing: ${target}")
  file(WRITE ${target} "${text}")
endforeach()
