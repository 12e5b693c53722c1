// The classes behind Metal's protocols, and makers of Foundation's values.
#pragma once

#include <string>
#include <vector>

#import <Metal/Metal.h>

#include "object.h"

@interface SimtDevice : NSObject <MTLDevice>
@end
@interface SimtBuffer : NSObject <MTLBuffer>
@end
@interface SimtEvent : NSObject <MTLSharedEvent>
@end
@interface SimtLibrary : NSObject <MTLLibrary>
@end
@interface SimtFunction : NSObject <MTLFunction>
@end
@interface SimtPipeline : NSObject <MTLComputePipelineState>
@end
@interface SimtQueue : NSObject <MTLCommandQueue>
@end
@interface SimtCommandBuffer : NSObject <MTLCommandBuffer>
@end
@interface SimtEncoder : NSObject <MTLComputeCommandEncoder>
@end
@interface SimtData : NSObject <OS_dispatch_data>
@end

namespace metal {

// Owned by the caller.
NSArray *array(const std::vector<id> &objects);
NSError *failure(NSString *domain, NSInteger code, const std::string &text);

// text_of is for the current pool to release.
NSString *text_of(const std::string &text);

} // namespace metal
