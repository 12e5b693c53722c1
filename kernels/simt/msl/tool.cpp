// msl looks at kernels without running them:
//
//	msl lint FILE...       with address spaces and all warnings, as Apple's compiler would look
//	msl check FILE...      that, and compiled as they run
//	msl translate FILE...  prints the C++ that the compiler gets
//
// The files are flattened (backend/internal/msl/flatten); - is the standard input. A file with
// FKV_BFLOAT is of version 3.1 of the language, as the backend asks for, any other of 3.0.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "compiler.h"

namespace {

std::string read(const std::string &file) {
    std::ostringstream text;
    if (file == "-") {
        text << std::cin.rdbuf();
        return text.str();
    }
    std::ifstream in(file);
    if (!in)
        throw msl::Failure("cannot read " + file + "\n");
    text << in.rdbuf();
    return text.str();
}

void look(const std::string &file, const std::string &verb) {
    std::string source = read(file);
    msl::Compiler compiler(source.find("#define FKV_BFLOAT") == source.npos ? 0x30000 : 0x30001);
    msl::Folder folder(std::filesystem::temp_directory_path());
    std::string text = compiler.translated(source, folder);
    if (verb == "translate") {
        std::cout << text;
        return;
    }
    compiler.check(text, folder);
    if (verb == "check")
        compiler.build(text, folder.path("checked.so"), folder);
}

} // namespace

int main(int argc, char **argv) {
    std::string verb = argc > 2 ? argv[1] : "";
    if (verb != "lint" && verb != "check" && verb != "translate") {
        fprintf(stderr, "usage: msl lint|check|translate FILE...\n");
        return 2;
    }
    int wrong = 0;
    for (int i = 2; i < argc; i++)
        try {
            look(argv[i], verb);
        } catch (const std::exception &e) {
            fprintf(stderr, "%s: %s", argv[i], e.what());
            wrong = 1;
        }
    return wrong;
}
