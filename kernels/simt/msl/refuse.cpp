#include "refuse.h"

#include <set>

#include "types.h"

namespace msl {

namespace {

const std::set<std::string> FORBIDDEN = {
    "double", "virtual", "new", "delete", "goto", "try", "catch", "throw", "dynamic_cast", "typeid", "asm", "thread_local",
    "extern", "wchar_t", "mutable", "std", "msl", "simt", "vertex", "fragment"};

const std::set<std::string> SPACES = {"device", "constant", "threadgroup", "thread"};

// After these words an expression begins, not a declaration.
const std::set<std::string> BEFORE_EXPRESSION = {"return", "case", "else", "do", "sizeof", "using", "operator", "friend", "typedef"};

// After these words a type stands in a declaration, not what is declared.
const std::set<std::string> BEFORE_TYPE = {"const", "constexpr", "volatile", "static", "inline", "typename", "device", "constant",
                                           "threadgroup", "thread", "kernel", "explicit", "unsigned", "signed"};

class Refusal {
public:
    explicit Refusal(const Source &source) : source_(source), scopes_(scopes(source)) {}

    void run() const {
        for (size_t i = 0; i + 1 < source_.size(); i++) {
            if (source_.is_word(i))
                word(i);
            if (source_.is(i, "["))
                bracket(i);
            if (source_.is(i, "{") && scopes_[i] == Scope::FUNCTION && (i == 0 || scopes_[i - 1] != Scope::FUNCTION))
                function(i);
            if (source_.is(i, "("))
                cast(i + 1, source_.partner(i));
            if (scopes_[i] != Scope::VALUES && source_.begins(i))
                declaration(i);
        }
    }

private:
    [[noreturn]] void no(size_t i, const std::string &text) const { throw Error(source_[i].place, text); }

    void word(size_t i) const {
        const std::string &text = source_[i].text;
        if (FORBIDDEN.count(text) || text.compare(0, 2, "__") == 0)
            no(i, "kernels may not use " + text);
        if (text == "long" && source_.is(i + 1, "long"))
            no(i, "Metal has no long long");
        if (text == "static" && scopes_[i] == Scope::FUNCTION)
            no(i, "Metal has no static variables in functions");
        if (is_type(text) && i > 0 && names(i))
            no(i, text + " is a type, and nothing else may have its name");
        if (text.size() > 5 && text.compare(text.size() - 5, 5, "_cast") == 0 && source_.is(i + 1, "<"))
            pointers(i + 2, source_.closing_angle(i + 1), "a cast");
    }

    // names says whether the type's word at i is used as another name: `float half =`.
    bool names(size_t i) const {
        bool ends = false, opens = source_.is(i + 1, "(") || source_.is(i + 1, "{") || source_.is(i + 1, "<");
        for (const char *end : {"=", ";", ",", ")", "[", ":"})
            ends = ends || source_.is(i + 1, end);
        const Token &before = source_[i - 1];
        if (before.is(".") || before.is("->"))
            return true;
        if (before.is("struct") || before.is("class") || before.is("enum") || before.is("union") || before.is("using"))
            return true;
        if (before.is("typename"))
            return ends || source_.is(i + 1, ">");
        if (source_.is_word(i - 1))
            return (ends || opens) && !BEFORE_EXPRESSION.count(before.text) && !BEFORE_TYPE.count(before.text);
        return ends && (before.is("*") || before.is("&") || (before.is(">") && source_.opening_angle(i - 1)));
    }

    // A [ that follows no value and no name begins a lambda.
    void bracket(size_t i) const {
        if (source_.attribute(i) || i == 0 || source_.is(i - 1, "["))
            return;
        const Token &before = source_[i - 1];
        bool subscript = before.is(")") || before.is("]") || before.is(">") || before.is("}") || before.kind == Token::TEXT ||
                         (before.kind == Token::WORD && (before.is("operator") || !BEFORE_EXPRESSION.count(before.text)));
        if (!subscript)
            no(i, "Metal has no lambdas");
    }

    // function looks at the parameters of the function whose body begins at i.
    void function(size_t i) const {
        size_t begin = source_.statement(i);
        for (size_t at = begin; at < i; at++) {
            if (source_.is(at, "<") && source_.is_word(at - 1) && source_.closing_angle(at)) {
                at = source_.closing_angle(at);
            } else if (source_.attribute(at) || source_.is(at, "[")) {
                at = source_.partner(at);
            } else if (source_.is(at, "(")) {
                if (source_.is_word(at - 1) && !SPACES.count(source_[at - 1].text) && !source_.is(at - 1, "alignas"))
                    for (Source::Range p : source_.split(at + 1, source_.partner(at)))
                        pointers(p.begin, p.end, "a parameter");
                if (!source_.is(at - 1, "alignas"))
                    return; // what follows are initializers of members
                at = source_.partner(at);
            }
        }
    }

    // pointers demands an address space where [begin, end) has a pointer or reference.
    void pointers(size_t begin, size_t end, const char *what) const {
        bool space = false;
        for (size_t i = begin; i < end && !source_.is(i, "="); i++) {
            space = space || SPACES.count(source_[i].text);
            if (source_.is(i, "["))
                i = source_.partner(i);
            else if (source_.is(i, "<") && source_.closing_angle(i))
                i = source_.closing_angle(i);
            else if (!space && (source_.is(i, "*") || source_.is(i, "&") || source_.is(i, "&&")))
                no(i, std::string(what) + " is a pointer or reference without an address space");
        }
    }

    // (T *) is a cast.
    void cast(size_t begin, size_t end) const {
        if (begin < end && source_.is(end - 1, "*"))
            pointers(begin, end, "a cast");
    }

    // declaration looks for `T *name` and `T &name` where a statement begins at i.
    void declaration(size_t i) const {
        if (source_.is(i, "static"))
            i++;
        if (source_.is(i, "const"))
            i++;
        if (!source_.is_word(i) || SPACES.count(source_[i].text) || BEFORE_EXPRESSION.count(source_[i].text))
            return;
        size_t at = i + 1;
        while (source_.is(at, "::") && source_.is_word(at + 1))
            at += 2;
        if (source_.is(at, "<") && source_.closing_angle(at))
            at = source_.closing_angle(at) + 1;
        if (source_.is(at, "const"))
            at++;
        if (!source_.is(at, "*") && !source_.is(at, "&"))
            return;
        if (source_.is_word(at + 1) && (source_.is(at + 2, "=") || source_.is(at + 2, ";") || source_.is(at + 2, ",") ||
                                        source_.is(at + 2, "(") || source_.is(at + 2, "[")))
            no(at, "a pointer or reference without an address space");
    }

    const Source &source_;
    std::vector<Scope> scopes_;
};

} // namespace

void refuse(const Source &source) { Refusal(source).run(); }

} // namespace msl
