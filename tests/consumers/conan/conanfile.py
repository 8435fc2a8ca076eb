# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, unzip


class Trireme(ConanFile):
    name = 'trireme'
    version = '0.1.0'
    description = 'Parallel training of neural networks, composed at compile time'
    license = 'Apache-2.0 WITH LLVM-exception'
    package_type = 'header-library'
    settings = 'os', 'compiler', 'build_type', 'arch'
    options = {'system_zlib': [True, False]}
    default_options = {'system_zlib': False}
    exports_sources = 'trireme-*.tar.gz'

    def requirements(self):
        if not self.options.system_zlib:
            self.requires('zlib/[>=1.2.11 <2]', transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def source(self):
        unzip(self, f'trireme-{self.version}.tar.gz', strip_root=True)

    def package(self):
        copy(self, 'LICENSE', self.source_folder, f'{self.package_folder}/licenses')
        copy(self, 'trireme/*', f'{self.source_folder}/include', f'{self.package_folder}/include')

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        self.cpp_info.system_libs = ['z', 'pthread'] if self.options.system_zlib else ['pthread']
