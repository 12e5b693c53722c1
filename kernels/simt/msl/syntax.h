// The brackets and scopes of a source.
#pragma once

#include <map>
#include <vector>

#include "token.h"

namespace msl {

// Source is a row of tokens, in which brackets are in pairs.
class Source {
public:
    // Throws Error when a bracket has no partner.
    explicit Source(std::vector<Token> tokens);

    size_t size() const { return tokens_.size(); }
    Token &operator[](size_t i) { return tokens_[i]; }
    const Token &operator[](size_t i) const { return tokens_[i]; }

    bool is(size_t i, const char *text) const { return i < size() && tokens_[i].is(text); }
    bool is_word(size_t i) const { return i < size() && tokens_[i].kind == Token::WORD; }

    // partner is the bracket that belongs to the one at i, of (), [] and {}.
    size_t partner(size_t i) const { return partners_.at(i); }

    // closing_angle is the > that closes the < at i; 0 if that is a comparison.
    size_t closing_angle(size_t i) const;

    // statement is where the statement or declaration that token i belongs to begins.
    size_t statement(size_t i) const;

    // opening_angle is the < that the > at i closes; 0 if there is none.
    size_t opening_angle(size_t i) const;

    // begins says whether a statement or declaration begins at i, also in the head of a loop.
    bool begins(size_t i) const { return statement(i) == i && (!is(i - 1, "(") || is(i - 2, "for")) && !is(i - 1, "["); }

    // attribute says whether [[ begins at i.
    bool attribute(size_t i) const;

    // code is the text of [begin, end) in one line.
    std::string code(size_t begin, size_t end) const;

    // split are the ranges between the commas of [begin, end), outside of brackets and templates.
    struct Range { size_t begin, end; };
    std::vector<Range> split(size_t begin, size_t end) const;

private:
    std::vector<Token> tokens_;
    std::map<size_t, size_t> partners_;
};

// Scope is what a pair of braces encloses.
enum class Scope { NAMESPACE, TYPE, FUNCTION, VALUES };

// scopes tells of every token where it stands; a brace stands in what it encloses.
std::vector<Scope> scopes(const Source &source);

} // namespace msl
