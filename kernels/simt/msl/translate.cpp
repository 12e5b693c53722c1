#include "translate.h"

#include "constructors.h"
#include "kernels.h"
#include "refuse.h"

namespace msl {

std::string translate(const std::string &preprocessed) {
    Source source(tokenize(preprocessed));
    refuse(source);
    rewrite_constructors(source);
    std::string entries = rewrite_kernels(source);
    std::string text;
    for (size_t i = 0; i < source.size(); i++)
        text += source[i].space + source[i].text;
    return text + "\n#ifndef MSL_AS\n" + entries + "#endif\n";
}

} // namespace msl
