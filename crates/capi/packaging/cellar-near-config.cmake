# cellar::near is the shared library, cellar::near-static the static one.

include(CMakeFindDependencyMacro)
find_dependency(Threads)

get_filename_component(CELLAR_NEAR_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET cellar::near)
  add_library(cellar::near SHARED IMPORTED)
  set_target_properties(cellar::near PROPERTIES
    IMPORTED_LOCATION "${CELLAR_NEAR_ROOT}/@LIBDIR@/libcellar-near.so.0"
    IMPORTED_SONAME "libcellar-near.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${CELLAR_NEAR_ROOT}/include")
endif()

if(NOT TARGET cellar::near-static)
  add_library(cellar::near-static STATIC IMPORTED)
  set_target_properties(cellar::near-static PROPERTIES
    IMPORTED_LOCATION "${CELLAR_NEAR_ROOT}/@LIBDIR@/libcellar-near.a"
    INTERFACE_INCLUDE_DIRECTORIES "${CELLAR_NEAR_ROOT}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()
