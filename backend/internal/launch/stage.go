package launch

import "github.com/ferrumkv/ferrumkv/backend/internal/abi"

// Stage is what one launch copies between planes and memory that the host copies in one piece. The sizes fit each other.
type Stage struct {
	Planes, List, Staging Place // of kernels/abi.h
	Count, Blocks         int   // planes, and blocks of each
	BlockBytes, Largest   int64 // bytes of a block of all planes, and of the plane that has most
	Listed                int   // blocks
	Begin, Bytes          int64 // of the list
	Back                  bool  // to the planes
}

// StageBlocks is the launch of s.
func StageBlocks(c *Calls, s *Stage) error {
	c.clear()
	a := arguments{op: "stage blocks"}
	args := abi.StageBlocksArgs{BlockBytes: s.BlockBytes, Begin: s.Begin, Bytes: s.Bytes,
		Planes: a.count("planes", s.Count), Listed: a.count("blocks listed", s.Listed), Blocks: a.count("blocks", s.Blocks)}
	a.count("planes of all blocks listed", s.Count*s.Listed)
	if a.err != nil {
		return a.err
	}
	if s.Back {
		args.Flags = abi.Unstage
	}
	grid := gridOf(min(s.Largest, s.Bytes), blockPieces*vectorBytes, int64(s.Count)*int64(s.Listed), 1)
	c.add(Kernel{Op: OpStageBlocks}, grid, 0, args.Encode(), s.Planes, s.List, s.Staging)
	return nil
}
