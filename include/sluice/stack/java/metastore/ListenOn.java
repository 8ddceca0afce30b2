package sluice.metastore;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import jdk.internal.org.objectweb.asm.ClassReader;
import jdk.internal.org.objectweb.asm.ClassVisitor;
import jdk.internal.org.objectweb.asm.ClassWriter;
import jdk.internal.org.objectweb.asm.MethodVisitor;
import jdk.internal.org.objectweb.asm.Opcodes;

/**
 * -javaagent:listen-on.agent=ADDRESS makes Hive's metastore listen on that address, and serve with today's Thrift.
 *
 * Hive 3.1 has no setting for the address: it calls SecurityUtils.getServerSocket(null, port), and null is every
 * interface. Here that method begins with {@code host = ADDRESS}. And where Hive returns null as a connection's
 * context, which Thrift did not use then, it returns a {@link Context}.
 */
public final class ListenOn implements ClassFileTransformer {
  private static final String HIVE = "org/apache/hadoop/hive/metastore/";
  private static final String SOCKETS = HIVE + "utils/SecurityUtils";
  private static final String CONNECTIONS = HIVE + "HiveMetaStore$1";
  private static final String CONTEXT = "sluice/metastore/Context";
  private final String address;

  private ListenOn(String address) {
    this.address = address;
  }

  public static void premain(String address, Instrumentation instrumentation) {
    instrumentation.addTransformer(new ListenOn(address));
  }

  @Override
  public byte[] transform(
      ClassLoader loader, String name, Class<?> already, ProtectionDomain domain, byte[] code) {
    if (!SOCKETS.equals(name) && !CONNECTIONS.equals(name)) {
      return null;
    }
    ClassReader reader = new ClassReader(code);
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    reader.accept(new ClassVisitor(Opcodes.ASM8, writer) {
      @Override
      public MethodVisitor visitMethod(
          int access, String method, String descriptor, String signature, String[] exceptions) {
        MethodVisitor body = super.visitMethod(access, method, descriptor, signature, exceptions);
        switch (method) {
          case "getServerSocket":
            return withAddress(body);
          case "createContext":
            return withContext(body);
          default:
            return body;
        }
      }
    }, 0);
    return writer.toByteArray();
  }

  private MethodVisitor withAddress(MethodVisitor body) {
    return new MethodVisitor(Opcodes.ASM8, body) {
      @Override
      public void visitCode() {
        super.visitCode();
        visitLdcInsn(address);
        visitVarInsn(Opcodes.ASTORE, 0);
      }
    };
  }

  private MethodVisitor withContext(MethodVisitor body) {
    return new MethodVisitor(Opcodes.ASM8, body) {
      @Override
      public void visitInsn(int code) {
        if (code != Opcodes.ACONST_NULL) {
          super.visitInsn(code);
          return;
        }
        visitTypeInsn(Opcodes.NEW, CONTEXT);
        visitInsn(Opcodes.DUP);
        visitMethodInsn(Opcodes.INVOKESPECIAL, CONTEXT, "<init>", "()V", false);
      }
    };
  }
}
