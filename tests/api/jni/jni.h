/* As much of Java's native interface as examples/llada_jni.c uses, so that it compiles where no JDK is. Names, types and
 * calling convention are those of the specification; the order of the functions is not, and nothing here is run. */
#ifndef LLADA_TESTS_API_JNI_H_
#define LLADA_TESTS_API_JNI_H_
#include <stdint.h>

#define JNIEXPORT
#define JNICALL

typedef int32_t jint;
typedef int64_t jlong;
typedef unsigned char jboolean;
typedef struct _jobject *jobject;
typedef jobject jclass;
typedef jobject jstring;

struct JNINativeInterface_;
typedef const struct JNINativeInterface_ *JNIEnv;
struct JNINativeInterface_ {
  jclass(JNICALL *FindClass)(JNIEnv *env, const char *name);
  jint(JNICALL *ThrowNew)(JNIEnv *env, jclass kind, const char *text);
  jstring(JNICALL *NewStringUTF)(JNIEnv *env, const char *text);
  const char *(JNICALL *GetStringUTFChars)(JNIEnv *env, jstring text, jboolean *copied);
  void(JNICALL *ReleaseStringUTFChars)(JNIEnv *env, jstring text, const char *chars);
};

#endif
