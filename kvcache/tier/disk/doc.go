// Package disk is the tier on a local disk: blocks of one group of one model in slots of one size, in files of its own.
//
// # Files
//
// A directory holds one namespace, a fingerprint and a group, so that all payloads have about one size:
//
//	meta.json  what the directory is for, for people; Open refuses a directory that is for something else; meta.json.new until it is written
//	table      a page of 4096 bytes, then an entry of 256 bytes a slot: key, parent, root, length and sum of the payload
//	data       the payloads, slots aligned to 4096 bytes
//	lock       locked by the one process that has the directory open
//
// Numbers are little-endian on every machine. Payloads are as they lie in the pool, so that machines of the other order of bytes refuse a
// directory. The table is read once, when the directory is opened; nothing else is needed to
// know what is there. Slots are taken from the front and the files grow with them, in steps, as far as the budget and the free
// space allow; payloads are never moved. A log-structured store would write each payload more than once, for an order that blocks
// do not have: they are of one size, never change, and can be computed again.
//
// # Crashes
//
// A block is stored by marking its slot's old entry as free, writing the payload, and writing the new entry, in this order, and
// is found only after all three. None of that is synced, and the disk may keep any part of it in any order: correctness
// comes from the checks. An entry counts if its own CRC32C is right, and a payload is handed out if it has the length and the
// sum of its entry, the one that it was put with, and the slot has kept its generation while it was read. All else is a miss: a payload that does not match
// is counted as corrupt, and its slot is not used again until the directory is reopened. The files are synced when 64 MiB or a
// second's blocks are not, so that a crash of the machine loses little; a crash of the process alone loses nothing.
//
// Delete and Clear are different: if they return nil, no crash brings back what they removed. They count what has been written and what
// syncs have covered, and rewrite the whole table when the counts are not enough: after a failed sync, because later ones may leave out its writes,
// and the first time after the directory was opened.
//
// # Other people's prompts
//
// Payloads are made from prompts, and prompts can be computed from them. Directories are made with mode 0700 and files with 0600;
// a directory that others may write to, a file that they may read, and those of another user are refused. With Options.Secret,
// table and data are encrypted by the owner's key. Delete and Clear remove
// entries, and have done so even if the machine crashes after them, but the payloads stay in their slots until others are
// written there, and a solid-state disk may keep what was overwritten for as long as it likes. With a Secret, what is forgotten cannot be
// decrypted any more, not even by its owner, once the entry is gone: the nonce that is needed for it was only there. Without,
// and where that matters, use a file system that is encrypted.
package disk
