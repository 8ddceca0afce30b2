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
 * -javaagent:listen-on.jar=ADDRESS makes Hive's metastore listen on that address.
 *
 * Hive 3.1 has no setting for it: it calls SecurityUtils.getServerSocket(null, port), and null is every
 * interface. Here that method begins with {@code host = ADDRESS}.
 */
public final class ListenOn implements ClassFileTransformer {
  private static final String CLASS = "org/apache/hadoop/hive/metastore/utils/SecurityUtils";
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
    if (!CLASS.equals(name)) {
      return null;
    }
    ClassReader reader = new ClassReader(code);
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    reader.accept(new ClassVisitor(Opcodes.ASM8, writer) {
      @Override
      public MethodVisitor visitMethod(
          int access, String method, String descriptor, String signature, String[] exceptions) {
        MethodVisitor body = super.visitMethod(access, method, descriptor, signature, exceptions);
        return "getServerSocket".equals(method) ? withAddress(body) : body;
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
}
