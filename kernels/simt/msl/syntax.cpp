#include "syntax.h"

namespace msl {

Source::Source(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    std::vector<size_t> open;
    for (size_t i = 0; i < size(); i++) {
        const std::string &text = tokens_[i].text;
        if (text == "(" || text == "[" || text == "{") {
            open.push_back(i);
        } else if (text == ")" || text == "]" || text == "}") {
            const char *want = text == ")" ? "(" : text == "]" ? "[" : "{";
            if (open.empty() || !is(open.back(), want))
                throw Error(tokens_[i].place, text + " closes nothing");
            partners_[i] = open.back();
            partners_[open.back()] = i;
            open.pop_back();
        }
    }
    if (!open.empty())
        throw Error(tokens_[open.back()].place, tokens_[open.back()].text + " is never closed");
}

size_t Source::closing_angle(size_t i) const {
    int depth = 0;
    for (; i < size(); i++) {
        if (is(i, "(") || is(i, "["))
            i = partner(i);
        else if (is(i, "<"))
            depth++;
        else if (is(i, ">") && --depth == 0)
            return i;
        else if (is(i, ";") || is(i, "{") || is(i, ")") || is(i, "]") || is(i, "&&") || is(i, "||"))
            return 0;
    }
    return 0;
}

size_t Source::opening_angle(size_t i) const {
    int depth = 0;
    for (; i > 0; i--) {
        if (is(i, ")") || is(i, "]"))
            i = partner(i);
        else if (is(i, ">"))
            depth++;
        else if (is(i, "<") && --depth == 0)
            return i;
        else if (is(i, ";") || is(i, "{") || is(i, "}"))
            return 0;
    }
    return 0;
}

size_t Source::statement(size_t i) const {
    for (; i > 0; i--) {
        if (is(i - 1, ";") || is(i - 1, "{") || is(i - 1, "}"))
            return i;
        if (is(i - 1, ":") && i >= 2 && (is(i - 2, "public") || is(i - 2, "private") || is(i - 2, "protected")))
            return i;
        if (is(i - 1, ")") || is(i - 1, "]"))
            i = partner(i - 1) + 1;
        else if (is(i - 1, "(") || is(i - 1, "["))
            return i;
    }
    return 0;
}

bool Source::attribute(size_t i) const { return is(i, "[") && is(i + 1, "[") && tokens_[i + 1].space.empty(); }

std::string Source::code(size_t begin, size_t end) const {
    std::string text;
    for (size_t i = begin; i < end; i++)
        text += (i > begin ? " " : "") + tokens_[i].text;
    return text;
}

std::vector<Source::Range> Source::split(size_t begin, size_t end) const {
    std::vector<Range> parts;
    size_t from = begin;
    for (size_t i = begin; i < end; i++) {
        if (is(i, "(") || is(i, "[") || is(i, "{"))
            i = partner(i);
        else if (is(i, "<") && i > begin && is_word(i - 1) && closing_angle(i) && closing_angle(i) < end)
            i = closing_angle(i);
        else if (is(i, ",")) {
            parts.push_back({from, i});
            from = i + 1;
        }
    }
    if (from < end || !parts.empty())
        parts.push_back({from, end});
    return parts;
}

namespace {

// scope tells what the brace at i opens.
Scope scope(const Source &source, size_t i, Scope around) {
    bool call = false, value = false;
    for (size_t at = source.statement(i); at < i; at++) {
        const Token &t = source[at];
        if (t.is("template") && source.is(at + 1, "<"))
            at = source.closing_angle(at + 1);
        else if (t.is("alignas"))
            at = source.partner(at + 1);
        else if (t.is("namespace"))
            return Scope::NAMESPACE;
        else if (t.is("enum"))
            return Scope::VALUES;
        else if (!call && !value && (t.is("struct") || t.is("class") || t.is("union")) && !source.is(i - 1, ")"))
            return Scope::TYPE;
        else if (t.is("="))
            value = true;
        else if (t.is("(")) {
            call = true;
            at = source.partner(at);
        }
    }
    if (around == Scope::FUNCTION || around == Scope::VALUES)
        return around;
    return call && !value ? Scope::FUNCTION : Scope::VALUES;
}

} // namespace

std::vector<Scope> scopes(const Source &source) {
    std::vector<Scope> all(source.size()), open{Scope::NAMESPACE};
    for (size_t i = 0; i < source.size(); i++) {
        if (source.is(i, "{"))
            open.push_back(scope(source, i, open.back()));
        all[i] = open.back();
        if (source.is(i, "}"))
            open.pop_back();
    }
    return all;
}

} // namespace msl
