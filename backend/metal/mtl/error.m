//go:build cgo && !nometal && (darwin || metalsimt)

#include <stdlib.h>
#include <string.h>

#import "shim.h"

/* Code 4 had another name in software development kits before macOS 13, and the two after
 * InvalidResource are newer than the oldest of them. */
_Static_assert(MTL_COMMAND_INTERNAL == MTLCommandBufferErrorInternal && MTL_COMMAND_TIMEOUT == MTLCommandBufferErrorTimeout &&
                   MTL_COMMAND_PAGE_FAULT == MTLCommandBufferErrorPageFault &&
                   MTL_COMMAND_NOT_PERMITTED == MTLCommandBufferErrorNotPermitted &&
                   MTL_COMMAND_OUT_OF_MEMORY == MTLCommandBufferErrorOutOfMemory &&
                   MTL_COMMAND_INVALID_RESOURCE == MTLCommandBufferErrorInvalidResource,
               "the codes are Metal's");

/* What an error without memory for its words is. It is never written. */
static const struct mtl_error exhausted = {"calloc", "", "out of host memory", 0};

static char *append(char **end, const char *text) {
    size_t size = strlen(text) + 1;
    char *start = memcpy(*end, text, size);
    *end += size;
    return start;
}

/* make puts an error and its words into one allocation. */
static struct mtl_error *make(const char *call, const char *domain, int64_t code, const char *text) {
    if (domain == NULL) domain = "";
    if (text == NULL) text = "";
    struct mtl_error *e = calloc(1, sizeof *e + strlen(domain) + strlen(text) + 2);
    if (e == NULL) return (struct mtl_error *)&exhausted;
    char *end = (char *)(e + 1);
    e->call = call;
    e->domain = append(&end, domain);
    e->text = append(&end, text);
    e->code = code;
    return e;
}

struct mtl_error *mtl_failed(const char *call, NSError *reason) {
    if (reason == nil) return make(call, "", 0, "failed without a reason");
    return make(call, [[reason domain] UTF8String], [reason code], [[reason localizedDescription] UTF8String]);
}

struct mtl_error *mtl_refused(const char *call, const char *why) { return make(call, "", 0, why); }

struct mtl_error *mtl_command_error(id<MTLCommandBuffer> command) {
    return [command status] == MTLCommandBufferStatusError ? mtl_failed(MTL_COMMAND, [command error]) : NULL;
}

int mtl_command_revoked(id<MTLCommandBuffer> command) {
    NSError *reason = [command error];
    return [reason code] == MTL_COMMAND_ACCESS_REVOKED && strcmp([[reason domain] UTF8String], MTL_COMMAND_DOMAIN) == 0;
}

void mtl_error_free(struct mtl_error *e) {
    if (e != &exhausted) free(e);
}
