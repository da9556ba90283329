package recipes

import (
	"context"
	"fmt"

	"github.com/batonzk/baton/framework"
)

// revokeRequest is what Curator's Revoker writes into a contender's node.
var revokeRequest = []byte("__REVOKE__")

// Revoke asks the contender whose node is at path, a [Participant.Path], to
// give its lock up. It replaces the node's data, as Curator's Revoker does: what
// the contender says of itself is gone, and [Participant.Data] is __REVOKE__.
// Nothing forces the holder; see [WithRevocationListener] and
// [EndWhenRevoked] for what the holder can do. A contender that still waits
// hears of it once it holds the lock.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	if client == nil {
		return fmt.Errorf("recipes: revoke: %w: client is nil", framework.ErrInvalidOption)
	}
	if err := framework.ValidatePath(path); err != nil {
		return fmt.Errorf("recipes: revoke: %w", err)
	}
	if _, name := framework.SplitPath(path); !isContender(name) {
		return fmt.Errorf("recipes: revoke: %w: %q is no lock's node", framework.ErrInvalidPath, path)
	}
	_, err := client.Set(ctx, path, revokeRequest, framework.AnyVersion, framework.Idempotent())
	if err != nil {
		return fmt.Errorf("recipes: revoke %s: %w", path, err)
	}
	return nil
}
