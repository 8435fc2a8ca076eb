# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${CMAKE_CURRENT_LIST_DIR}/trireme-${VERSION}.tar.gz")

set(VCPKG_BUILD_TYPE release) # headers are the same for every build
file(INSTALL "${SOURCE_PATH}/include/trireme" DESTINATION "${CURRENT_PACKAGES_DIR}/include" FILES_MATCHING PATTERN "*.hpp")

set(version "${VERSION}")
set(include_dir "\${CMAKE_CURRENT_LIST_DIR}/../../include")
foreach(name triremeConfig.cmake triremeConfigVersion.cmake)
    configure_file("${SOURCE_PATH}/include/${name}.in" "${CURRENT_PACKAGES_DIR}/share/trireme/${name}" @ONLY)
endforeach()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
