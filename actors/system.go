package actors

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// newSystem makes an actor system whose own messages go where ours go.
func newSystem(log *zap.Logger) *actor.ActorSystem {
	handler := zapslog.NewHandler(log.Named("protoactor").Core())
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(handler)
	}))
}
