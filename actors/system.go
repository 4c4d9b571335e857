package actors

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
)

// newSystem makes an actor system whose own messages go where ours go.
func newSystem(log *zap.Logger) *actor.ActorSystem {
	// Its notices of start and stop are of no use to a training job.
	core, err := zapcore.NewIncreaseLevelCore(log.Core(), zapcore.WarnLevel)
	if err != nil { // log is quieter than that already
		core = log.Core()
	}
	handler := zapslog.NewHandler(core)
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(handler)
	}))
}
