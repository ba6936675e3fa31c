set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")

# Every flag that decides bits or warnings; each module links it.
add_library(rlgen_flags INTERFACE)
target_compile_options(rlgen_flags INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers -ffp-contract=off
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
target_include_directories(rlgen_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)

if(RLGEN_SANITIZE STREQUAL "address")
  target_compile_options(rlgen_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -g1)
  target_link_options(rlgen_flags INTERFACE -fsanitize=address,undefined)
elseif(RLGEN_SANITIZE STREQUAL "thread")
  target_compile_options(rlgen_flags INTERFACE -fsanitize=thread -g1 -Wno-tsan)
  target_link_options(rlgen_flags INTERFACE -fsanitize=thread)
elseif(RLGEN_SANITIZE)
  message(FATAL_ERROR "RLGEN_SANITIZE is '${RLGEN_SANITIZE}'; use address, thread or nothing")
endif()

find_program(RLGEN_MOLD mold)
if(RLGEN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
