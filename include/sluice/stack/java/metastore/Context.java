package sluice.metastore;

import org.apache.thrift.server.ServerContext;

/** A connection's context. Hive keeps nothing in it. */
public final class Context implements ServerContext {
  @Override
  public <T> T unwrap(Class<T> kind) {
    throw new UnsupportedOperationException(kind.getName());
  }

  @Override
  public boolean isWrapperFor(Class<?> kind) {
    return false;
  }
}
