# Modules whose coverage guides the fuzzers: the parsers of what comes from outside.
set(RLGEN_FUZZED_MODULES contract models generation refit)
# Modules in which tests spend their time. Beside the address sanitizer they alone are optimised.
set(RLGEN_HOT_MODULES tensor kernels models engine)

# rlgen_module(NAME DEPS lib...) makes the static library rlgen_NAME from every .cpp of the folder
# and its subfolders, and from the *_test.cpp files one test binary NAME_test. A dependency is the
# name of a module or of an imported target; TEST_DEPS are linked to the test binary only. Sources
# that match a regex after EXCLUDE are left out. UNINSTRUMENTED keeps the thread sanitizer away from
# the module itself (inner loops, which it would slow down by an order of magnitude).
function(rlgen_module NAME)
  cmake_parse_arguments(ARG "UNINSTRUMENTED" "" "DEPS;TEST_DEPS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(pattern IN LISTS ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")

  if(sources)
    add_library(rlgen_${NAME} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(rlgen_${NAME} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(rlgen_${NAME} ${scope} rlgen_flags)
  foreach(dep IN LISTS ARG_DEPS)
    if(EXISTS ${PROJECT_SOURCE_DIR}/src/${dep}/CMakeLists.txt)
      target_link_libraries(rlgen_${NAME} ${scope} rlgen_${dep})
    else()
      target_link_libraries(rlgen_${NAME} ${scope} ${dep})
    endif()
  endforeach()

  if(RLGEN_BUILD_FUZZERS AND NAME IN_LIST RLGEN_FUZZED_MODULES)
    target_compile_options(rlgen_${NAME} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(ARG_UNINSTRUMENTED AND RLGEN_SANITIZE STREQUAL "thread")
    set_property(TARGET rlgen_${NAME} PROPERTY RLGEN_UNINSTRUMENTED ON)
  endif()
  if(NAME IN_LIST RLGEN_HOT_MODULES)
    set_property(TARGET rlgen_${NAME} PROPERTY RLGEN_HOT ON)
  endif()

  if(RLGEN_BUILD_TESTS AND tests)
    string(REPLACE "/" "_" test_name ${NAME})
    add_executable(${test_name}_test ${tests})
    target_link_libraries(${test_name}_test PRIVATE rlgen_${NAME} rlgen_flags GTest::gmock GTest::gtest_main
      ${ARG_TEST_DEPS})
    add_test(NAME ${test_name} COMMAND ${test_name}_test WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${test_name} PROPERTIES LABELS fast TIMEOUT 300)
  endif()
endfunction()
