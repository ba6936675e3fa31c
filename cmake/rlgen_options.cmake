set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")

# Every flag that decides bits or warnings; each module links it.
add_library(rlgen_flags INTERFACE)
target_compile_options(rlgen_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers
  -ffp-contract=off -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
if(RLGEN_WERROR)
  target_compile_options(rlgen_flags INTERFACE -Werror)
endif()
target_include_directories(rlgen_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)

if(RLGEN_SANITIZE STREQUAL "address")
  # What is left out costs most of the time to compile and finds what the address sanitizer finds.
  # Optimising costs half of what is left; where tests spend little time it is not worth it.
  target_compile_options(rlgen_flags INTERFACE -fsanitize=address,undefined
    -fno-sanitize=null,object-size,vptr -fno-sanitize-recover=all -fno-omit-frame-pointer -g1
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:RLGEN_HOT>>>:-O0>)
  target_link_options(rlgen_flags INTERFACE -fsanitize=address,undefined)
elseif(RLGEN_SANITIZE STREQUAL "thread")
  target_compile_options(rlgen_flags INTERFACE -g1 -O1
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:RLGEN_UNINSTRUMENTED>>>:-fsanitize=thread>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(rlgen_flags INTERFACE -Wno-tsan)
  endif()
  target_link_options(rlgen_flags INTERFACE -fsanitize=thread)
elseif(RLGEN_SANITIZE)
  message(FATAL_ERROR "RLGEN_SANITIZE is '${RLGEN_SANITIZE}'; use address, thread or nothing")
endif()

# For files of large unrolled loops, which inline checks make ten times slower to compile: memory is
# still checked, by calls.
set(RLGEN_INNER_LOOP_FLAGS "")
if(RLGEN_SANITIZE STREQUAL "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(RLGEN_INNER_LOOP_FLAGS -mllvm -asan-instrumentation-with-call-threshold=0)
endif()

find_program(RLGEN_MOLD mold)
if(RLGEN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_program(RLGEN_CCACHE ccache)
if(RLGEN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${RLGEN_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${RLGEN_CCACHE})
endif()
