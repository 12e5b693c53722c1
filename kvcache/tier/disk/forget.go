package disk

import (
	"context"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Delete forgets blocks; see tier.Tier. After it, they are not found even if the machine crashes.
func (t *Tier) Delete(ctx context.Context, keys []tier.Key) error {
	if err := t.begin("delete"); err != nil {
		return err
	}
	defer t.end()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := t.forget(func(dst []int32) []int32 {
		for _, k := range keys {
			if i, ok := t.index.byKey[k]; ok && !slices.Contains(dst, i) {
				dst = append(dst, i)
			}
		}
		return dst
	})
	return t.failed("delete", err)
}

// Clear forgets all blocks of a root, or all; see tier.Tier. After it, they are not found even if the machine crashes. The
// package's comment says what remains of them on the disk. When all blocks go, the files become empty.
func (t *Tier) Clear(ctx context.Context, root tier.Key) error {
	if err := t.begin("clear"); err != nil {
		return err
	}
	defer t.end()
	if err := ctx.Err(); err != nil {
		return err
	}
	all := root == tier.Key{}
	var err error
	if all {
		err = t.shrink(t.limit, t.index.forget)
	}
	e := t.forget(func(dst []int32) []int32 {
		for _, i := range t.index.byKey {
			if all || t.index.slots[i].root == root {
				dst = append(dst, i)
			}
		}
		return dst
	})
	if err == nil {
		err = e
	}
	return t.failed("clear", err)
}
