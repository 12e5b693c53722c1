#include "misuse.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace metal {
namespace {

[[noreturn]] void die(const char *call, const char *format, va_list arguments) {
    fprintf(stderr, "simt: misuse: %s: ", call);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    fflush(stderr);
    abort();
}

} // namespace

void misuse(id object, SEL call, const char *format, ...) {
    char name[256];
    snprintf(name, sizeof name, "-[%s %s]", object_getClassName(object), sel_getName(call));
    va_list arguments;
    va_start(arguments, format);
    die(name, format, arguments);
}

void misuse(const char *function, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    die(function, format, arguments);
}

} // namespace metal
