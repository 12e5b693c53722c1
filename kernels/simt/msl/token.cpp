#include "token.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

namespace msl {

namespace {

bool begins_word(char c) { return isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class Tokenizer {
public:
    explicit Tokenizer(const std::string &source) : source_(source) {}

    std::vector<Token> run() {
        std::vector<Token> tokens;
        do {
            size_t begin = at_;
            skip_space();
            Token t;
            t.space = source_.substr(begin, at_ - begin);
            t.place = place_;
            begin = at_;
            t.kind = next();
            t.text = source_.substr(begin, at_ - begin);
            tokens.push_back(t);
        } while (tokens.back().kind != Token::END);
        return tokens;
    }

private:
    char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

    bool starts(const char *what) const { return source_.compare(at_, strlen(what), what) == 0; }

    void step() {
        if (source_[at_++] == '\n') {
            place_.line++;
            fresh_ = true;
        }
    }

    void skip_space() {
        while (at_ < source_.size()) {
            if (isspace(static_cast<unsigned char>(peek()))) {
                step();
            } else if (starts("//")) {
                while (at_ < source_.size() && peek() != '\n')
                    step();
            } else if (starts("/*")) {
                size_t end = source_.find("*/", at_ + 2);
                if (end == std::string::npos)
                    throw Error(place_, "a comment does not end");
                while (at_ < end + 2)
                    step();
            } else if (peek() == '#' && fresh_) {
                directive();
            } else {
                return;
            }
        }
    }

    // directive skips a line of the preprocessor. `# 12 "file"` says what the next line is.
    void directive() {
        size_t end = source_.find('\n', at_);
        std::string line = source_.substr(at_ + 1, end == std::string::npos ? end : end - at_ - 1);
        while (at_ < source_.size() && peek() != '\n')
            step();
        const char *p = line.c_str();
        char *after;
        unsigned long number = strtoul(p, &after, 10);
        size_t quote = line.find('"');
        if (after == p || quote == line.npos)
            return; // a pragma
        place_ = {line.substr(quote + 1, line.rfind('"') - quote - 1), unsigned(number) - 1};
    }

    Token::Kind next() {
        fresh_ = false;
        char c = peek();
        if (at_ >= source_.size())
            return Token::END;
        if (begins_word(c)) {
            while (continues_word(peek()))
                step();
            return Token::WORD;
        }
        if (isdigit(static_cast<unsigned char>(c)) || (c == '.' && isdigit(static_cast<unsigned char>(peek(1))))) {
            number();
            return Token::NUMBER;
        }
        if (c == '"' || c == '\'') {
            quoted(c);
            return Token::TEXT;
        }
        punctuation();
        return Token::PUNCTUATION;
    }

    void number() {
        while (continues_word(peek()) || peek() == '.' || (peek() == '\'' && continues_word(peek(1)))) {
            bool exponent = strchr("eEpP", peek()) != nullptr;
            step();
            if (exponent && (peek() == '+' || peek() == '-'))
                step();
        }
    }

    void quoted(char quote) {
        Place begin = place_;
        step();
        while (peek() != quote) {
            if (at_ >= source_.size() || peek() == '\n')
                throw Error(begin, "a string or character does not end");
            if (peek() == '\\')
                step();
            step();
        }
        step();
    }

    void punctuation() {
        for (const char *pair : {"::", "->", "==", "<=", ">=", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=",
                                 "++", "--"})
            if (starts(pair)) {
                at_ += 2;
                return;
            }
        step();
    }

    const std::string &source_;
    size_t at_ = 0;
    Place place_;
    bool fresh_ = true; // nothing but space since the line began
};

} // namespace

std::vector<Token> tokenize(const std::string &source) { return Tokenizer(source).run(); }

} // namespace msl
