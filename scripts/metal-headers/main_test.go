package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Both sides of the same declarations, in the style of either.
const (
	ours = `
typedef NS_ENUM(NSUInteger, MTLKind) { // MTLThing.hpp
    MTLKindPlain = 0,
    MTLKindOther = 53,
};
typedef struct { // MTLTypes.hpp
    NSUInteger width, height;
} MTLPair;
@protocol MTLResource, MTLQueue;
@protocol MTLThing <MTLResource> // MTLThing.hpp
@property (readwrite) BOOL fast;
- (id<MTLQueue>)newQueue;
- (NSArray<id<MTLQueue>> *)queuesOf:(NSString *)name
                              error:(NSError **)error;
- (void)setBytes:(const void *)bytes length:(NSUInteger)length; // metal/mtlthing/setbytes
@end
typedef void (^MTLThingHandler)(id<MTLThing>); // MTLThing.hpp
`
	theirs = `
_MTL_ENUM(NS::UInteger, Kind) {
    KindPlain = 0,
    KindOther = 53,
};
class Thing : public NS::Referencing<Thing, Resource>
using ThingHandler = void (^)(Thing*);
_MTL_INLINE bool MTL::Thing::fast() const
    return Object::sendMessage<bool>(this, _MTL_PRIVATE_SEL(fast));
_MTL_INLINE void MTL::Thing::setFast(bool fast)
    Object::sendMessage<void>(this, _MTL_PRIVATE_SEL(setFast_), fast);
_MTL_INLINE MTL::Queue* MTL::Thing::newQueue()
    return Object::sendMessage<MTL::Queue*>(this, _MTL_PRIVATE_SEL(newQueue));
_MTL_INLINE NS::Array* MTL::Thing::queues(const NS::String* name, NS::Error** error)
    return Object::sendMessage<NS::Array*>(this, _MTL_PRIVATE_SEL(queuesOf_error_), name, error);
`
	theirTypes = `
struct Pair
{
    NS::UInteger width;
    NS::UInteger height;
} _MTL_PACKED;
`
)

func TestBothSidesAgree(t *testing.T) {
	known := append(defined("MTLThing.hpp", theirs), defined("MTLTypes.hpp", theirTypes)...)
	var pages []fact
	for _, f := range declared(ours) {
		if f.header == page {
			pages = append(pages, f)
			continue
		}
		require.Contains(t, known, f)
	}
	require.Equal(t, []fact{{page, "method Thing setBytes:length: void(constvoid*,UInteger)"}}, pages)
	require.Len(t, declared(ours), len(known)+len(pages), "every line is a fact")
}

func TestTypesThatDifferAreSeen(t *testing.T) {
	known := defined("MTLThing.hpp", theirs)
	for _, wrong := range []string{
		"- (id<MTLQueue>)fast;",
		"- (NSArray *)queuesOf:(NSString *)name error:(NSError *)error;",
		"- (id<MTLQueue>)newQueue:(NSUInteger)length;",
	} {
		facts := declared("@protocol MTLThing <MTLResource> // MTLThing.hpp\n" + wrong + "\n@end\n")
		require.Contains(t, known, facts[0], "the class")
		require.NotContains(t, known, facts[1])
	}
	require.NotContains(t, known, declared("@protocol MTLThing <NSObject> // MTLThing.hpp\n")[0])
}
