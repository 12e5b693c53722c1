// Dispatch data.
#include <string>

#include "classes.h"
#include "misuse.h"

using namespace metal;

@implementation SimtData
@end

dispatch_data_t dispatch_data_create(const void *buffer, size_t size, dispatch_queue_t, dispatch_block_t destructor) {
    if (destructor != DISPATCH_DATA_DESTRUCTOR_DEFAULT)
        misuse("dispatch_data_create", "the stand-in copies, with DISPATCH_DATA_DESTRUCTOR_DEFAULT alone");
    return make([SimtData class], std::make_shared<std::string>(static_cast<const char *>(buffer), size));
}

void dispatch_release(NSObject *object) {
    if (object == nil)
        misuse("dispatch_release", "there is no object");
    [object release];
}
