package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// wrong is an ErrArgument of what the batch's buffers hold.
func (a *attention) wrong(format string, args ...any) error {
	return backend.ErrArgument{Op: a.op, What: fmt.Sprintf(format, args...)}
}

// check looks at what the batch's buffers say, and that the work was made for it, unless that is
// known.
func (a *attention) check(p *backend.AttendParams[*Buffer]) error {
	var err error
	if p.Work.Set && p.Batch.Seqs*max(p.Batch.TableStride, 1) >= fewEntries {
		err = a.checkOnce(p)
	} else {
		err = a.look(p)
	}
	if err != nil {
		return err
	}
	if a.space > 0 && p.Workspace.Set { // a call for the mass alone has none
		a.divide(view[float32](p.Workspace.Buf), a.spaceRows)
	}
	return nil
}

// look is check of a batch that is not known.
func (a *attention) look(p *backend.AttendParams[*Buffer]) error {
	batch, cache := &p.Batch, &p.Cache
	if err := a.checkOffsets(batch); err != nil {
		return err
	}
	slots := uint64(cache.BlockSize) // that a sequence can have
	if batch.Table.Set {
		if n, ok := backend.Mul(cache.BlockSize, batch.TableStride); ok {
			slots = uint64(n)
		}
	}
	sum := a.fingerprint()
	for i, ctx := range a.lens {
		if uint64(ctx) > slots {
			return a.wrong("context lengths: sequence %d has %d tokens, its blocks hold %d", i, ctx, slots)
		}
		_, n := a.tokensOf(i)
		sum = sum.Add(int(ctx), n)
		if n == 0 {
			continue
		}
		if !a.ordinary {
			if err := a.checkShown(i, cache); err != nil {
				return err
			}
			continue
		}
		if !batch.Table.Set {
			continue
		}
		table, keys := a.table(i), a.see.Of(int(ctx), n, 0, n)
		if err := table.check(a.op, i, keys.First, keys.Sinks, cache); err != nil {
			return err
		}
		if err := table.check(a.op, i, keys.Lo, keys.Hi, cache); err != nil {
			return err
		}
	}
	if a.viewed {
		sum = sum.AddWords(a.views[:2*a.tokens])
	}
	return a.checkWork(p, sum)
}

func (a *attention) checkOffsets(batch *backend.Ragged[*Buffer]) error {
	if a.offsets == nil {
		return nil
	}
	a.offsets = a.offsets[:batch.Seqs+1]
	last := uint32(0)
	for i, n := range a.offsets {
		if n < last || i == 0 && n != 0 {
			return a.wrong("query offsets: element %d is %d after %d, need 0 first and no step back", i, n, last)
		}
		last = n
	}
	if uint64(last) != uint64(batch.Tokens) {
		return a.wrong("query offsets: end at %d, need the %d tokens", last, batch.Tokens)
	}
	return nil
}

// checkWork recognises the plan and checks the range of every item, so that work
// that was overwritten cannot lead outside the operands.
func (a *attention) checkWork(p *backend.AttendParams[*Buffer], sum plan.Fingerprint) error {
	work := optional[uint32](p.Work)
	if len(work) < headerWords || work[0] != planMagic || work[1] != uint32(sum) || work[2] != uint32(sum>>32) {
		return a.wrong("work: was not planned for these sequences; call PlanAttend for this step and upload its work")
	}
	if err := a.see.Within(work[wordVisible:wordItems]); err != nil {
		return a.wrong("%v", err)
	}
	a.abreast = int(work[wordAbreast])
	n, rows, units, many := int(work[wordItems]), int(work[wordRows]), int(work[wordUnits]), int(work[wordListed])
	if work = work[headerWords:]; n > len(work)/itemWords || n < 1 || many > (len(work)-n*itemWords)/listedWords {
		return a.wrong("work: %d elements, too few for %d items and %d queries", len(work)+headerWords, n, many)
	}
	if a.abreast < 1 || a.abreast > maxTogether {
		return a.wrong("work: %d heads side by side, need 1 to %d", a.abreast, maxTogether)
	}
	a.items, a.listed = work[:n*itemWords], work[n*itemWords:][:many*listedWords]
	space, ok := a.workspace(p.Batch.Tokens, rows, units)
	if !ok || space > p.Plan.Workspace {
		return a.wrong("workspace: %d elements were planned, the work needs more", p.Plan.Workspace)
	}
	var it item
	for i := range n {
		it.decode(a.items[i*itemWords:])
		if it.many() {
			if err := a.checkMany(i, &it, rows, units); err != nil {
				return err
			}
			continue
		}
		if it.seq < 0 || it.seq >= len(a.lens) {
			return a.wrong("work: item %d is out of range", i)
		}
		if _, n := a.tokensOf(it.seq); !it.within(n, int(a.lens[it.seq]), &a.workload, rows, units) {
			return a.wrong("work: item %d is out of range", i)
		}
	}
	a.space, a.spaceRows = space, rows
	return nil
}

// divide lays out the workspace.
func (a *attention) divide(space []float32, rows int) {
	if a.withMass {
		n := a.tokens * a.qHeads
		a.finalLSE, space = space[:n], space[n:]
	}
	a.split.lse, space = space[:rows], space[rows:]
	a.keptSpace = space[rows*a.vDim:]
	a.split.rows = vectors{n: rows, k: a.out.k, mem: backend.BytesOf(space), dt: backend.F32, size: 4, stride: a.vDim}
}
