#include "kernels.h"

#include <set>

namespace msl {

namespace {

// Those whose value the library's entry.h gives by a function of the same name.
const std::set<std::string> BUILTIN = {"threadgroup_position_in_grid",   "threadgroups_per_grid",
                                       "thread_index_in_threadgroup",    "simdgroup_index_in_threadgroup",
                                       "thread_index_in_simdgroup"};

// Attribute is one of [[a, b(c)]].
struct Attribute {
    std::string name, argument;
    Place place;
};

class Rewriter {
public:
    explicit Rewriter(Source &source) : source_(source), scopes_(scopes(source)) {}

    std::string run() {
        for (size_t i = 0; i + 1 < source_.size(); i++) {
            if (source_.is(i, "kernel"))
                kernel(i);
            else if (source_.is(i, "threadgroup") && source_.begins(i) && is_variable(i))
                no(i, "threadgroup variables are declared in the outermost block of a kernel");
            else if (source_.attribute(i) && is_constant(i))
                constant(i);
            else if (source_.attribute(i) && !is_head(i))
                no(i, "an attribute that is not known here: " + source_.code(i, source_.partner(i) + 1));
        }
        return text_ + "static const unsigned msl_constants[] = {" + constants_ + "0};\n" + //
               "static const ::msl::Function msl_functions[] = {" + functions_ + "{nullptr, nullptr, nullptr, 0, 0}};\n" +
               "MSL_PROGRAM(msl_functions, msl_constants)\n";
    }

private:
    [[noreturn]] void no(size_t i, const std::string &text) const { throw Error(source_[i].place, text); }

    void erase(size_t begin, size_t end) {
        for (size_t i = begin; i < end; i++)
            source_[i].text.clear();
    }

    // attributes reads and erases [[...]] at i.
    std::vector<Attribute> attributes(size_t i) {
        std::vector<Attribute> found;
        size_t end = source_.partner(i);
        for (Source::Range r : source_.split(i + 2, source_.partner(i + 1))) {
            Attribute a{source_[r.begin].text, "", source_[r.begin].place};
            if (source_.is(r.begin + 1, "(") && source_.partner(r.begin + 1) == r.end - 1)
                a.argument = source_.code(r.begin + 2, r.end - 1);
            else if (r.end != r.begin + 1)
                no(r.begin, "an attribute that is not understood: " + source_.code(r.begin, r.end));
            found.push_back(a);
        }
        erase(i, end + 1);
        return found;
    }

    // is_head says whether the attribute at i is followed by a kernel, which reads it.
    bool is_head(size_t i) const { return source_.is(source_.partner(i) + 1, "kernel"); }

    bool is_constant(size_t i) const { return source_.is(i + 2, "function_constant"); }

    // constant makes an object of `constant bool name [[function_constant(n)]];`.
    void constant(size_t i) {
        size_t end = source_.partner(i) + 1;
        bool declared = source_.statement(i) == i - 3 && source_.is(i - 3, "constant") && source_.is(i - 2, "bool") &&
                        source_.is_word(i - 1) && source_.is(end, ";") && scopes_[i] == Scope::NAMESPACE;
        if (!declared)
            no(i, "a function constant is declared as: constant bool name [[function_constant(index)]];");
        std::vector<Attribute> found = attributes(i);
        if (found.size() != 1 || found[0].argument.empty())
            no(i, "a function constant has one attribute, with its index");
        source_[i - 3].text = "static const";
        source_[i - 2].text = "::msl::Constant<(" + found[0].argument + ")>";
        source_[i].text = " = {}";
        constants_ += "decltype(" + source_[i - 1].text + ")::index, ";
    }

    // kernel rewrites the entry point whose word `kernel` is at i.
    void kernel(size_t i) {
        size_t name = i + 2, open = i + 3;
        bool defined = source_.is(i + 1, "void") && source_.is_word(name) && source_.is(open, "(") &&
                       source_.is(source_.partner(open) + 1, "{");
        if (!defined)
            no(i, "a kernel is defined as: [[max_total_threads_per_threadgroup(n)]] kernel void name(...) {...}");
        if (scopes_[i] != Scope::NAMESPACE || !is_global(i))
            no(i, "a kernel stands in no namespace");
        size_t begin = source_.statement(i);
        if (source_.is(begin, "template"))
            no(i, "kernels are not templates: their names must be known");
        if (begin == i || !source_.attribute(begin) || source_.partner(begin) + 1 != i)
            no(i, "[[max_total_threads_per_threadgroup(n)]] stands in front of a kernel, and nothing else");
        std::vector<Attribute> head = attributes(begin);
        if (head.size() != 1 || head[0].name != "max_total_threads_per_threadgroup" || head[0].argument.empty())
            throw Error(head[0].place, "an attribute that is not known in front of a kernel: " + head[0].name);
        if (!names_.insert(source_[name].text).second)
            no(name, "two kernels of the name " + source_[name].text);
        source_[i].text.clear();
        size_t body = source_.partner(open) + 1;
        entry(source_[name], open, head[0].argument);
        variables(source_[name].text, body);
    }

    bool is_global(size_t i) const {
        for (size_t at = 0; at < i; at++)
            if (source_.is(at, "{") && source_.partner(at) > i)
                return false;
        return true;
    }

    // entry writes the function that takes a kernel's parameters from a launch, by their types,
    // which clang knows better.
    void entry(const Token &name, size_t open, const std::string &threads) {
        std::string values, arguments;
        unsigned index = 0, buffers = 0;
        for (Source::Range p : source_.split(open + 1, source_.partner(open))) {
            std::string type = "::msl::Parameter<" + std::to_string(index) + ", decltype(&::" + name.text + ")>";
            values += (index++ ? ", " : "") + parameter(p, type, buffers, arguments);
        }
        std::string call = "msl_call_" + name.text, list = "msl_arguments_" + name.text;
        text_ += "# " + std::to_string(name.place.line) + " \"" + name.place.file + "\"\n" + //
                 "static void " + call + "(void *const *params) { (void)params; ::" + name.text + "(" + values + "); } " +
                 "static const ::msl::Argument " + list + "[] = {" + arguments + "{0, false, false, 0, -1}};\n";
        functions_ += "{\"" + name.text + "\", &" + call + ", " + list + ", " + std::to_string(buffers) + ", " + threads + "}, ";
    }

    // parameter gives the expression for a parameter's value, and adds to the arguments if it
    // is a buffer.
    std::string parameter(Source::Range p, const std::string &type, unsigned &buffers, std::string &arguments) {
        size_t at = p.begin;
        bool constant = false, device = false, refers = false;
        while (at < p.end && !source_.attribute(at)) {
            constant = constant || source_.is(at, "constant");
            device = device || source_.is(at, "device");
            refers = refers || source_.is(at, "*") || source_.is(at, "&");
            at++;
        }
        if (at == p.end || source_.partner(at) + 1 != p.end)
            no(p.begin, "a parameter of a kernel ends with one [[...]]");
        std::string number, guard;
        std::vector<Attribute> found = attributes(at);
        for (const Attribute &a : found) {
            if (BUILTIN.count(a.name) && found.size() == 1)
                return "::msl::exactly<" + type + ">(::msl::" + a.name + "())";
            if (a.name == "buffer" && !a.argument.empty())
                number = a.argument;
            else if (a.name == "function_constant" && !a.argument.empty())
                guard = a.argument;
            else
                throw Error(a.place, "an attribute that is not known for a parameter: " + a.name);
        }
        if (number.empty() || constant == device || !refers)
            no(p.begin, "a buffer is a device or a constant pointer or reference, with [[buffer(index)]]");
        std::string buffer = "::msl::Buffer<" + type + ">";
        std::string exists = guard.empty() ? "true" : guard;
        arguments += "{unsigned(" + number + "), " + (constant ? "true, " : "false, ") + buffer + "::WRITABLE, " + buffer + "::SIZE, " +
                     (guard.empty() ? "-1" : "int(decltype(" + guard + ")::index)") + "}, ";
        return "::msl::take_buffer<" + type + ">(params, " + std::to_string(buffers++) + ", " + exists + ")";
    }

    // is_variable tells `threadgroup T name[n];` at i from pointers, references and functions.
    bool is_variable(size_t i) const {
        for (; i < source_.size(); i++) {
            if (source_.is(i, "<") && source_.closing_angle(i))
                i = source_.closing_angle(i);
            else if (source_.is(i, "[") || source_.is(i, ";") || source_.is(i, "=") || source_.is(i, ",") || source_.is(i, "{"))
                return true;
            else if (source_.is(i, "*") || source_.is(i, "&"))
                return false;
            else if (source_.is(i, "(") && !source_.is(i - 1, "alignas") && !source_.is(i - 1, "decltype"))
                return false;
            else if (source_.is(i, "("))
                i = source_.partner(i);
        }
        return false;
    }

    // variables lays the threadgroup variables of a kernel one behind the other.
    void variables(const std::string &name, size_t body) {
        std::string end = "0";
        for (size_t i = body + 1; i < source_.partner(body); i++) {
            if (source_.is(i, "{"))
                i = source_.partner(i);
            else if (source_.is(i, "threadgroup") && source_.begins(i) && is_variable(i))
                end = variable(name, i, end);
        }
    }

    // variable rewrites the one at i, which begins behind begin, and returns where it ends.
    std::string variable(const std::string &kernel, size_t i, const std::string &begin) {
        size_t end = i;
        while (!source_.is(end, ";"))
            if (source_.is(end, "{") || source_.is(end, "=") || (source_.is(end, ",") && source_.split(i, end).size() == 1))
                no(end, "a threadgroup variable has a declaration of its own, without a value");
            else
                end = source_.is(end, "[") || source_.is(end, "(") ? source_.partner(end) + 1 : end + 1;
        size_t extents = i;
        while (extents < end && !source_.is(extents, "["))
            extents++;
        const std::string name = source_[extents - 1].text;
        const std::string id = std::to_string(variables_++);
        const std::string type = "msl_type_" + id, from = "msl_begin_" + id, to = "msl_end_" + id;
        size_t element = i + 1;
        std::string align = "alignof(" + type + ")";
        if (source_.is(element, "alignas")) {
            align = "::msl::larger(" + align + ", " + source_.code(element + 2, source_.partner(element + 1)) + ")";
            element = source_.partner(element + 1) + 1;
        }
        std::string text = "typedef " + source_.code(element, extents - 1) + " " + type + source_.code(extents, end) + "; " + //
                           "enum : ulong { " + from + " = ::msl::aligned(" + begin + ", " + align + "), " + //
                           to + " = " + from + " + sizeof(" + type + ") }; " + //
                           "MSL_SHARED(" + id + ", \"" + kernel + "\", " + to + "); " + //
                           "threadgroup " + type + " &" + name + " = ::msl::threadgroup_variable<threadgroup " + type + ">(" + from + ")";
        erase(i, end);
        source_[i].text = text;
        return to;
    }

    Source &source_;
    std::vector<Scope> scopes_;
    std::set<std::string> names_;
    unsigned variables_ = 0;
    std::string text_, constants_, functions_;
};

} // namespace

std::string rewrite_kernels(Source &source) { return Rewriter(source).run(); }

} // namespace msl
