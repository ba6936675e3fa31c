# Which headers a program outside the tree gets: those of contract, generation and api, but for the
# stand-ins of tests, and all that these include.
cmake_minimum_required(VERSION 3.25)

# find_public_headers(SRC OUT): their paths relative to SRC, sorted.
function(find_public_headers SRC OUT)
  file(GLOB_RECURSE open RELATIVE ${SRC} ${SRC}/contract/*.h ${SRC}/generation/*.h ${SRC}/api/*.h)
  list(FILTER open EXCLUDE REGEX "/fake_|_fixture\\.h$")
  set(found "")
  while(open)
    list(POP_FRONT open header)
    list(APPEND found ${header})
    file(STRINGS ${SRC}/${header} lines REGEX "^#include \"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
      if(NOT included IN_LIST found AND NOT included IN_LIST open)
        list(APPEND open ${included})
      endif()
    endforeach()
  endwhile()
  list(SORT found)
  set(${OUT} ${found} PARENT_SCOPE)
endfunction()
