// The words of a kernel's source, after the preprocessor.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace msl {

// Place is a line of a file, as the preprocessor's markers name it.
struct Place {
    std::string file;
    unsigned line = 1;
};

// Error is something wrong with a source; what() is "file:line: error: text".
class Error : public std::runtime_error {
public:
    Error(const Place &place, const std::string &text)
        : std::runtime_error(place.file + ":" + std::to_string(place.line) + ": error: " + text) {}
};

// Token is a word, a literal or a piece of punctuation, with the space before it, in which
// comments and the preprocessor's lines are too. Those of a source, one after another, are the
// source again.
struct Token {
    enum Kind { WORD, NUMBER, TEXT, PUNCTUATION, END };

    Kind kind;
    std::string space, text;
    Place place;

    bool is(const char *what) const { return text == what; }
};

// tokenize ends with a token END. `>` always stands alone, because two may close templates,
// and so does each bracket. Throws Error.
std::vector<Token> tokenize(const std::string &source);

} // namespace msl
