# SPDX-License-Identifier: Apache-2.0
# Installs libweft, its headers, the package for find_package(weft), and weft.pc. Other files are installed where they are built.
include(CMakePackageConfigHelpers)
install(TARGETS weft EXPORT weft LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft NAMESPACE weft:: FILE weft-config.cmake DESTINATION ${package_folder})
write_basic_package_version_file(generated/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/weft-config-version.cmake DESTINATION ${package_folder})
configure_file(cmake/weft.pc.in generated/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
