// MTLBuffer: memory that the host shares with a device, or does not see.
#include "call.h"
#include "classes.h"

using namespace metal;

@implementation SimtBuffer

- (NSUInteger)length {
    Call call(_cmd);
    return body_of<Buffer>(self)->memory.size();
}

- (void *)contents {
    Call call(_cmd);
    auto buffer = body_of<Buffer>(self);
    return buffer->shared ? buffer->memory.data() : nullptr;
}

- (id<MTLDevice>)device {
    Call call(_cmd);
    return body_of<Buffer>(self)->device.object;
}

- (MTLHazardTrackingMode)hazardTrackingMode {
    Call call(_cmd);
    return body_of<Buffer>(self)->tracked ? MTLHazardTrackingModeTracked : MTLHazardTrackingModeUntracked;
}

- (MTLStorageMode)storageMode {
    Call call(_cmd);
    return body_of<Buffer>(self)->shared ? MTLStorageModeShared : MTLStorageModePrivate;
}

@end
