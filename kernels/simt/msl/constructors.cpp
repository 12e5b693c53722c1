#include "constructors.h"

#include <set>

#include "types.h"

namespace msl {

namespace {

// names are those that the source gives to what may be a vector.
std::set<std::string> names(const Source &source) {
    std::set<std::string> all;
    for (size_t i = 0; i + 2 < source.size(); i++) {
        bool alias = source.is(i, "using") && source.is(i + 2, "=");
        bool parameter = (source.is(i, "typename") || source.is(i, "class")) &&
                         (source.is(i + 2, ",") || source.is(i + 2, ">") || source.is(i + 2, "="));
        if ((alias || parameter) && source.is_word(i + 1))
            all.insert(source[i + 1].text);
        if (source.is(i, "typedef")) {
            size_t end = i;
            while (end + 1 < source.size() && !source.is(end + 1, ";"))
                end++;
            if (source.is_word(end))
                all.insert(source[end].text);
        }
    }
    return all;
}

// declares says whether the parentheses after the type that ends before open declare
// something, as in `thread float4 (&rows)[4]`.
bool declares(const Source &source, size_t first, size_t open) {
    if (!source.is_word(open + 2) || !source.is(open + 3, ")"))
        return false;
    if (source.is(open + 1, "&"))
        return true;
    const Token &before = source[first - 1];
    return source.is(open + 1, "*") && (before.is("const") || before.is("device") || before.is("constant") ||
                                        before.is("threadgroup") || before.is("thread"));
}

} // namespace

void rewrite_constructors(Source &source) {
    const std::set<std::string> known = names(source);
    for (size_t i = 1; i + 1 < source.size(); i++) {
        size_t last = i;
        if (source.is(i, "vec") && source.is(i + 1, "<"))
            last = source.closing_angle(i + 1);
        else if (!is_vector(source[i].text) && !known.count(source[i].text))
            continue;
        size_t open = last + 1;
        if (last == 0 || !source.is(open, "(") || source.partner(open) == open + 1 || declares(source, i, open))
            continue;
        size_t first = i;
        while (source.is(first - 1, "::"))
            if (source.is(first - 2, ">") && source.opening_angle(first - 2))
                first = source.opening_angle(first - 2) - 1;
            else
                first -= source.is_word(first - 2) ? 2 : 1;
        if (source.is(first - 1, "typename"))
            first--;
        const Token &before = source[first - 1];
        bool expression = before.is("return") || before.is("else") || before.is("case");
        if (before.is(".") || before.is("->") || before.is("~") || (before.kind == Token::WORD && !expression))
            continue;
        source[last].text += ">";
        source[first].text = "::msl::make<" + source[first].text;
    }
}

} // namespace msl
