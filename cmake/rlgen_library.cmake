# What cmake --install gives to C++ programs outside the tree: one shared library, the headers that
# declare what it shows, and the package that find_package(rlgen) finds. See docs/cpp.md.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# An object for each source, since only some of them stand behind public headers.
set_target_properties(rlgen_base rlgen_tensor rlgen_text PROPERTIES UNITY_BUILD OFF)

set(objects "")
foreach(module base tensor contract text generation api)
  list(APPEND objects $<TARGET_OBJECTS:rlgen_${module}>)
endforeach()
set(object_list ${CMAKE_CURRENT_BINARY_DIR}/public_objects)
set(export_map ${CMAKE_CURRENT_BINARY_DIR}/rlgen.map)
file(GENERATE OUTPUT ${object_list} CONTENT "$<JOIN:${objects},\n>\n")
add_custom_command(
  OUTPUT ${export_map}
  COMMAND ${CMAKE_COMMAND} -DSRC=${PROJECT_SOURCE_DIR}/src -DOBJECTS=${object_list} -DNM=${CMAKE_NM}
    -DMAP=${export_map} -P ${PROJECT_SOURCE_DIR}/cmake/export_map.cmake
  DEPENDS ${objects} ${object_list} ${PROJECT_SOURCE_DIR}/cmake/export_map.cmake
    ${PROJECT_SOURCE_DIR}/cmake/public_headers.cmake
  COMMENT "Listing what the library shows"
  VERBATIM)
add_custom_target(rlgen_export_map DEPENDS ${export_map})

# Objects, so that all of the public modules is in it; of the others the linker takes what these need.
add_library(rlgen_library SHARED ${objects})
add_dependencies(rlgen_library rlgen_export_map)
target_link_libraries(rlgen_library
  PRIVATE rlgen_api
  INTERFACE absl::status absl::statusor absl::flat_hash_map absl::function_ref fmt::fmt
    nlohmann_json::nlohmann_json Threads::Threads)
target_link_options(rlgen_library PRIVATE -Wl,--version-script=${export_map})
target_compile_features(rlgen_library INTERFACE cxx_std_20)
set_target_properties(rlgen_library PROPERTIES
  OUTPUT_NAME rlgen
  EXPORT_NAME rlgen
  LINKER_LANGUAGE CXX
  LINK_DEPENDS ${export_map}
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rlgen)
install(TARGETS rlgen_library EXPORT rlgen LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT rlgen NAMESPACE rlgen:: FILE rlgen-targets.cmake DESTINATION ${package_dir})
install(CODE "set(SRC \"${PROJECT_SOURCE_DIR}/src\")
set(INCLUDE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/rlgen-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/rlgen-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/rlgen-config-version.cmake DESTINATION ${package_dir})
