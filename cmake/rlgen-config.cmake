# Gives the target rlgen::rlgen. Found by find_package(rlgen).
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(absl)
find_dependency(fmt)
find_dependency(nlohmann_json)
include(${CMAKE_CURRENT_LIST_DIR}/rlgen-targets.cmake)
